//! Reads a secret from where the jobs file says it is kept.

use std::path::PathBuf;

pub use secrecy::SecretString;

use crate::directory::SecretSource;

/// The longest file that is read as a secret; a longer one is the wrong file.
const FILE_MAX: u64 = 64 * 1024;

/// Why there is no secret. The texts name its place, never its value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The variable is not there.
    #[error("the environment variable `{name}` is not set")]
    NotSet {
        /// The variable.
        name: String,
    },
    /// The variable's value is not text.
    #[error("the environment variable `{name}` is not valid UTF-8")]
    NotText {
        /// The variable.
        name: String,
    },
    /// There is nothing but white space.
    #[error("{place} is empty")]
    Empty {
        /// The variable or the file.
        place: String,
    },
    /// The file is too long for a secret.
    #[error("the secret file `{}` is longer than {FILE_MAX} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read the secret file `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Reads the secret, without the white space around it.
///
/// # Errors
/// [`SecretError`] names the variable or the file.
pub fn read(source: &SecretSource) -> Result<SecretString, SecretError> {
    let (text, place) = match source {
        SecretSource::Env(name) => (
            from_env(name)?,
            format!("the environment variable `{name}`"),
        ),
        SecretSource::File(path) => (
            from_file(path)?,
            format!("the secret file `{}`", path.display()),
        ),
    };
    match text.trim() {
        "" => Err(SecretError::Empty { place }),
        secret => Ok(SecretString::from(secret)),
    }
}

fn from_env(name: &str) -> Result<String, SecretError> {
    std::env::var(name).map_err(|error| match error {
        std::env::VarError::NotPresent => SecretError::NotSet {
            name: name.to_owned(),
        },
        // The error itself holds the value.
        std::env::VarError::NotUnicode(_) => SecretError::NotText {
            name: name.to_owned(),
        },
    })
}

fn from_file(path: &PathBuf) -> Result<String, SecretError> {
    let failed = |source| SecretError::File {
        path: path.clone(),
        source,
    };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_MAX {
        return Err(SecretError::TooLong { path: path.clone() });
    }
    std::fs::read_to_string(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_file_is_trimmed_and_its_errors_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, " 123:abc\n").unwrap();
        let secret = read(&SecretSource::File(path.clone())).unwrap();
        assert_eq!(secret.expose_secret(), "123:abc");
        assert!(!format!("{secret:?}").contains("abc"));

        std::fs::write(&path, " \n").unwrap();
        let empty = read(&SecretSource::File(path)).unwrap_err();
        assert!(empty.to_string().contains("token` is empty"), "{empty}");
        let missing = read(&SecretSource::File(dir.path().join("none"))).unwrap_err();
        assert!(missing.to_string().contains("none"), "{missing}");
    }

    #[test]
    fn a_missing_variable_is_named() {
        let source = SecretSource::Env("CHATCRON_TEST_NO_SUCH_VARIABLE".to_owned());
        assert_eq!(
            read(&source).unwrap_err().to_string(),
            "the environment variable `CHATCRON_TEST_NO_SUCH_VARIABLE` is not set"
        );
        let path = read(&SecretSource::Env("PATH".to_owned()));
        assert!(path.is_ok());
    }
}
