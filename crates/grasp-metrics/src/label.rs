//! Values of labels, as enums.

/// A label whose values are the variants of an enum. Declared by [`labels!`](crate::labels).
pub trait Label: Copy + 'static {
    /// All values, each at its [`index`](Self::index).
    const ALL: &'static [Self];

    /// The value as monitoring sees it.
    fn name(self) -> &'static str;

    /// Its place in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}

/// Declares a [`Label`]: a documented enum, and the text of each variant.
#[macro_export]
macro_rules! labels {
    ($(#[$doc:meta])* $visible:vis $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visible enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $crate::Label for $name {
            const ALL: &'static [Self] = &[$(Self::$variant,)+];

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
