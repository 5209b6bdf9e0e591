//! The relay's own key (IDN-1).

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nostr::key::{Keys, SecretKey};
use nostr::nips::nip19::ToBech32 as _;

use super::source::Sources;

/// The variable that may hold the key. It has no flag: process lists show flags.
pub(crate) const VARIABLE: &str = "NGIT_RELAY_OWNER_NSEC";
/// The systemd credential that may hold it.
const CREDENTIAL: &str = "relay_owner_nsec";
/// The file of last resort, in the working directory.
pub(crate) const FILE: &str = ".relay-owner.nsec";
/// A key file is 64 bytes and a newline; what is much longer is something else.
const FILE_BYTES_MAX: u64 = 1024;

/// The relay's key. It has no way to print itself.
pub(crate) struct Owner(Keys);

impl Owner {
    /// Hands the key on to where events are signed.
    pub(crate) fn into_keys(self) -> Keys {
        self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Owner(..)")
    }
}

/// Why there is no key. No variant holds any of its text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnerError {
    /// Set, and nothing in it.
    #[error("the relay's key in {0} is empty")]
    Empty(Origin),
    /// Not a secret key.
    #[error("the relay's key in {0} is not a valid nsec")]
    Invalid(Origin),
    /// There, but not readable.
    #[error("the relay's key in {0} cannot be read")]
    Read(Origin, #[source] io::Error),
    /// IDN-1: hardened units have a working directory they cannot write.
    #[error(
        "the relay has no key, and {FILE} cannot be made in the working directory; pass the key as the \
         systemd credential {CREDENTIAL} or in {VARIABLE}"
    )]
    Create(#[source] io::Error),
    /// Others may read it, and it cannot be changed.
    #[error("others can read {FILE}, and its mode cannot be set to 0600")]
    Tighten(#[source] io::Error),
}

/// Where a key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The systemd credential.
    Credential,
    /// The environment or `.env`.
    Variable,
    /// The file in the working directory.
    File,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credential => write!(out, "the systemd credential {CREDENTIAL}"),
            Self::Variable => out.write_str(VARIABLE),
            Self::File => out.write_str(FILE),
        }
    }
}

/// Where to look.
pub(crate) struct Places<'a> {
    /// `$CREDENTIALS_DIRECTORY`.
    pub(crate) credentials: Option<PathBuf>,
    /// The environment and `.env`.
    pub(crate) sources: &'a Sources,
    /// The working directory.
    pub(crate) directory: &'a Path,
}

/// IDN-1: systemd credential, then variable, then the file, which is made if absent.
pub(crate) fn load(places: &Places<'_>) -> Result<Owner, OwnerError> {
    if let Some(credentials) = &places.credentials {
        match read(&credentials.join(CREDENTIAL)) {
            Ok(text) => return parse(&text, Origin::Credential),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(OwnerError::Read(Origin::Credential, error)),
        }
    }
    if let Some(text) = places.sources.text(VARIABLE) {
        return parse(text, Origin::Variable);
    }
    let path = places.directory.join(FILE);
    match read(&path) {
        Ok(text) => {
            let owner = parse(&text, Origin::File)?;
            tighten(&path)?;
            Ok(owner)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(&path),
        Err(error) => Err(OwnerError::Read(Origin::File, error)),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(FILE_BYTES_MAX)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn parse(text: &str, origin: Origin) -> Result<Owner, OwnerError> {
    match text.trim() {
        "" => Err(OwnerError::Empty(origin)),
        key => Keys::parse(key)
            .map(Owner)
            .map_err(|_| OwnerError::Invalid(origin)),
    }
}

fn tighten(path: &Path) -> Result<(), OwnerError> {
    let others = 0o077
        & fs::metadata(path)
            .map_err(|error| OwnerError::Read(Origin::File, error))?
            .mode();
    if others == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(OwnerError::Tighten)?;
    tracing::warn!(
        file = FILE,
        "others could read the relay's key; its mode is 0600 now"
    );
    Ok(())
}

fn create(path: &Path) -> Result<Owner, OwnerError> {
    let keys = Keys::new(random_key().map_err(OwnerError::Create)?);
    let nsec = keys
        .secret_key()
        .to_bech32()
        .map_err(|_| OwnerError::Invalid(Origin::File))?;
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "{nsec}")?;
        file.sync_all()
    })();
    written.map_err(OwnerError::Create)?;
    Ok(Owner(keys))
}

fn random_key() -> io::Result<SecretKey> {
    let mut source = File::open("/dev/urandom")?;
    loop {
        let mut bytes = [0; 32];
        source.read_exact(&mut bytes)?;
        // All but a few of 2^256 numbers are keys.
        if let Ok(key) = SecretKey::from_slice(&bytes) {
            return Ok(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NSEC: &str = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5";

    fn load_from(
        directory: &Path,
        credentials: Option<&Path>,
        variable: Option<&str>,
    ) -> Result<Owner, OwnerError> {
        let mut sources = Sources::default();
        sources
            .environment
            .extend(variable.map(|text| (VARIABLE.to_owned(), text.to_owned())));
        load(&Places {
            credentials: credentials.map(Path::to_owned),
            sources: &sources,
            directory,
        })
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o777
    }

    /// IDN-1
    #[test]
    fn the_first_start_makes_a_key_that_only_we_can_read_and_keeps_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = load_from(dir.path(), None, None).expect("made").into_keys();
        assert_eq!(mode(&dir.path().join(FILE)), 0o600);
        let second = load_from(dir.path(), None, None).expect("read").into_keys();
        assert_eq!(first.public_key(), second.public_key());
    }

    /// IDN-1
    #[test]
    fn a_credential_beats_the_variable_and_the_variable_beats_the_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let credentials = tempfile::tempdir().expect("a folder");
        let file = load_from(dir.path(), None, None).expect("made").into_keys();
        let set = load_from(dir.path(), None, Some(NSEC))
            .expect("set")
            .into_keys();
        assert_ne!(file.public_key(), set.public_key());
        let other = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92fff";
        fs::write(credentials.path().join(CREDENTIAL), other).expect("written");
        let credential = load_from(dir.path(), Some(credentials.path()), Some(NSEC))
            .expect("a credential")
            .into_keys();
        assert_ne!(credential.public_key(), set.public_key());
    }

    /// Case 99
    #[test]
    fn a_trailing_newline_does_not_count_and_a_permissive_mode_is_tightened() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(FILE);
        fs::write(&path, format!("{NSEC}\r\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        load_from(dir.path(), None, None).expect("a key");
        assert_eq!(mode(&path), 0o600);
    }

    /// IDN-1
    #[test]
    fn an_empty_or_invalid_key_is_an_error_that_does_not_show_it() {
        let dir = tempfile::tempdir().expect("a folder");
        for (text, part) in [
            ("", "empty"),
            (" \n", "empty"),
            ("nsec1oops", "not a valid"),
        ] {
            let error = load_from(dir.path(), None, Some(text)).expect_err(text);
            assert!(error.to_string().contains(part), "{error}");
            assert!(!format!("{error:?}").contains("oops"));
        }
        assert!(!dir.path().join(FILE).exists(), "nothing is made instead");
    }

    #[test]
    fn a_key_cannot_be_printed() {
        let dir = tempfile::tempdir().expect("a folder");
        let owner = load_from(dir.path(), None, Some(NSEC)).expect("a key");
        assert_eq!(format!("{owner:?}"), "Owner(..)");
    }

    /// IDN-1
    #[test]
    fn a_folder_that_cannot_be_written_names_the_other_ways() {
        let error = load_from(Path::new("/proc"), None, None).expect_err("read-only");
        let text = error.to_string();
        assert!(
            text.contains(VARIABLE) && text.contains(CREDENTIAL),
            "{text}"
        );
    }
}
