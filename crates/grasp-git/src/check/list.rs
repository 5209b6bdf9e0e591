//! What lies in the git folder: repositories, and what is none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use grasp_core::PublicKey;
use grasp_core::name::{Coordinate, Identifier, RepoAddress, parse_npub};

use super::inspect::entries;
use crate::error::Error;
use crate::repository::Repositories;

/// Of what is no repository so much is told.
const STRAYS_MAX: usize = 100;
/// What an operator's file system, or this server, keeps at the top.
const EXPECTED: [&str; 4] = [".grasp", ".archive", "prs", "lost+found"];

/// What is in the git folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// Folders in the place of a repository, whatever is in them.
    pub repositories: BTreeSet<RepoAddress>,
    /// What is in nobody's place, the first ones. This server did not put it there and leaves it alone.
    pub strays: Vec<PathBuf>,
}

impl Repositories {
    /// Lists the git folder, the archive and our own folder left out.
    pub fn list(&self) -> Result<Listed, Error> {
        let mut listed = Listed::default();
        for path in entries(self.root())? {
            let name = name_of(&path);
            match name.as_deref() {
                Some(name) if EXPECTED.contains(&name) => {}
                Some(name) => match parse_npub(name) {
                    Some(owner) => listed.below(&path, owner, RepoAddress::Announced)?,
                    None => listed.stray(path),
                },
                None => listed.stray(path),
            }
        }
        for path in entries(&self.root().join("prs"))? {
            let submitter = name_of(&path).and_then(|name| {
                let key = PublicKey::from_hex(&name).ok()?;
                (key.to_hex() == name).then_some(key)
            });
            match submitter {
                Some(submitter) => listed.below(&path, submitter, RepoAddress::Proposals)?,
                None => listed.stray(path),
            }
        }
        Ok(listed)
    }
}

impl Listed {
    fn below(
        &mut self,
        folder: &Path,
        owner: PublicKey,
        address: fn(Coordinate) -> RepoAddress,
    ) -> Result<(), Error> {
        if !folder.is_dir() {
            self.stray(folder.to_owned());
            return Ok(());
        }
        for path in entries(folder)? {
            let identifier = name_of(&path).and_then(|name| {
                let identifier: Identifier = name.strip_suffix(".git")?.parse().ok()?;
                Some(identifier)
            });
            match identifier.filter(|_| path.is_dir()) {
                Some(identifier) => {
                    let coordinate = Coordinate::new(owner, identifier);
                    self.repositories.insert(address(coordinate));
                }
                None => self.stray(path),
            }
        }
        Ok(())
    }

    fn stray(&mut self, path: PathBuf) {
        if self.strays.len() < STRAYS_MAX {
            self.strays.push(path);
        }
    }
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name()?.to_str().map(str::to_owned)
}
