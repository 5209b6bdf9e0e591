//! Brings objects from one repository of a family into another.
