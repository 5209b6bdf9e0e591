//! Plain git as a person runs it: own home, no prompts, nothing of the machine's configuration.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Name to object id, as `git ls-remote` prints them; `HEAD` and `^{}` entries included.
pub type Refs = BTreeMap<String, String>;

/// No git command of a test takes longer.
const COMMAND_MAX: Duration = Duration::from_mins(3);

/// The refs that a state names, symbolic and peeled entries included.
pub fn refs_named_by(state: &nostr::event::Event) -> Refs {
    state
        .tags
        .iter()
        .map(nostr::event::Tag::as_slice)
        .filter(|tag| tag.len() > 1 && tag[0].starts_with("refs/"))
        .map(|tag| (tag[0].clone(), tag[1].clone()))
        .collect()
}

/// A home directory for git. Removed with its last clone.
#[derive(Debug, Clone)]
pub struct GitHome {
    dir: Arc<TempDir>,
}

/// What a `git push` said.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// Whether it exited with 0.
    pub ok: bool,
    /// What it printed for the person: `remote:` lines and `[remote rejected]` ones.
    pub stderr: String,
}

impl Pushed {
    /// The refusal's text; fails the test if the push was accepted.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(!self.ok, "the push should be refused: {}", self.stderr);
        self.stderr
    }

    /// Fails the test if the push was refused.
    #[track_caller]
    pub fn accepted(self) -> String {
        assert!(self.ok, "the push should be accepted: {}", self.stderr);
        self.stderr
    }
}

impl GitHome {
    /// A new, empty home.
    pub fn new() -> Self {
        let dir = TempDir::with_prefix("grasp-git-").expect("a temporary directory");
        std::fs::write(
            dir.path().join(".gitconfig"),
            "[user]\n\tname = tester\n\temail = tester@example.invalid\n\
             [init]\n\tdefaultBranch = main\n[commit]\n\tgpgsign = false\n\
             [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[advice]\n\tdetachedHead = false\n",
        )
        .expect("the home is writable");
        Self { dir: Arc::new(dir) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `git` in `cwd` with this home and a clean environment.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        cwd: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new("git");
        command
            .args(args)
            .current_dir(cwd)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs git and returns its exit and both outputs.
    pub async fn try_run<A: AsRef<OsStr>>(
        &self,
        cwd: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> std::process::Output {
        tokio::time::timeout(COMMAND_MAX, self.command(cwd, args).output())
            .await
            .expect("git ends in time")
            .expect("git is installed")
    }

    /// Runs git and returns what it printed; fails the test if git fails.
    pub async fn run<A: AsRef<OsStr>>(
        &self,
        cwd: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> String {
        let args: Vec<_> = args.into_iter().map(|a| a.as_ref().to_owned()).collect();
        let output = self.try_run(cwd, &args).await;
        assert!(
            output.status.success(),
            "git {args:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs git with bytes on its standard input and returns its standard output.
    pub async fn run_with_input<A: AsRef<OsStr>>(
        &self,
        cwd: &Path,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Vec<u8> {
        let mut child = self
            .command(cwd, args)
            .stdin(Stdio::piped())
            .spawn()
            .expect("git is installed");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let feed = async move {
            // A git that ends early says why on stderr; that is reported below.
            let _ = stdin.write_all(input).await;
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        let output = output.expect("git can be waited for");
        assert!(
            output.status.success(),
            "git failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    /// A new repository without commits.
    pub async fn init(&self, name: &str) -> WorkTree {
        let dir = self.path().join(name);
        self.run(self.path(), ["init", "-q", name]).await;
        WorkTree {
            home: self.clone(),
            dir,
        }
    }

    /// Clones with further options; fails the test if git fails.
    pub async fn clone_with(&self, url: &str, name: &str, options: &[&str]) -> WorkTree {
        let mut args = vec!["clone", "-q"];
        args.extend(options);
        args.extend([url, name]);
        self.run(self.path(), args).await;
        WorkTree {
            home: self.clone(),
            dir: self.path().join(name),
        }
    }

    /// Clones; fails the test if git fails.
    pub async fn clone_of(&self, url: &str, name: &str) -> WorkTree {
        self.clone_with(url, name, &[]).await
    }

    /// What `git ls-remote` lists at `url`.
    pub async fn ls_remote(&self, url: &str) -> Refs {
        parse_refs(&self.run(self.path(), ["ls-remote", url]).await)
    }

    /// The branch that `HEAD` names at `url`, if the server says.
    pub async fn remote_head(&self, url: &str) -> Option<String> {
        self.run(self.path(), ["ls-remote", "--symref", url, "HEAD"])
            .await
            .lines()
            .find_map(|line| line.strip_prefix("ref: ")?.strip_suffix("\tHEAD"))
            .map(str::to_owned)
    }
}

impl Default for GitHome {
    fn default() -> Self {
        Self::new()
    }
}

fn parse_refs(text: &str) -> Refs {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(oid, name)| (name.to_owned(), oid.to_owned()))
        .collect()
}

/// A repository with a working tree.
#[derive(Debug, Clone)]
pub struct WorkTree {
    home: GitHome,
    dir: PathBuf,
}

impl WorkTree {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Whose home it lies in.
    pub fn home(&self) -> &GitHome {
        &self.home
    }

    /// Runs git here; fails the test if git fails.
    pub async fn git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        self.home.run(&self.dir, args).await
    }

    /// Runs git here and returns its exit and both outputs.
    pub async fn try_git<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> std::process::Output {
        self.home.try_run(&self.dir, args).await
    }

    /// Writes `text` to a file of that name, commits it and returns the commit.
    pub async fn commit(&self, text: &str) -> String {
        self.commit_file(&format!("{text}.txt"), text.as_bytes())
            .await
    }

    /// Writes a file, commits it and returns the commit.
    pub async fn commit_file(&self, name: &str, content: &[u8]) -> String {
        std::fs::write(self.dir.join(name), content).expect("the work tree is writable");
        self.git(["add", "-A"]).await;
        self.git(["commit", "-q", "--allow-empty", "-m", name])
            .await;
        self.rev("HEAD").await
    }

    /// The object id that a revision names.
    pub async fn rev(&self, revision: &str) -> String {
        self.git(["rev-parse", revision]).await
    }

    /// How many commits a revision has.
    pub async fn count(&self, revision: &str) -> usize {
        self.git(["rev-list", "--count", revision])
            .await
            .parse()
            .expect("a number")
    }

    /// Pushes refspecs (and options) to `url`.
    pub async fn push_to(&self, url: &str, refspecs: &[&str]) -> Pushed {
        let mut args = vec!["push", url];
        args.extend(refspecs);
        let output = self.try_git(args).await;
        Pushed {
            ok: output.status.success(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// A pack of `revisions`, with all they need.
    pub async fn pack(&self, revisions: &[&str]) -> Vec<u8> {
        let input = revisions.join("\n") + "\n";
        let args = ["pack-objects", "-q", "--revs", "--stdout"];
        self.home
            .run_with_input(&self.dir, args, input.as_bytes())
            .await
    }

    /// A pack of exactly these objects, closed or not.
    pub async fn pack_of(&self, oids: &[&str]) -> Vec<u8> {
        let input = oids.join("\n") + "\n";
        let args = ["pack-objects", "-q", "--stdout"];
        self.home
            .run_with_input(&self.dir, args, input.as_bytes())
            .await
    }

    /// Stores an object without git's own checks and returns its id.
    pub async fn write_object(&self, kind: &str, content: &[u8]) -> String {
        let args = ["hash-object", "-w", "--literally", "-t", kind, "--stdin"];
        let id = self.home.run_with_input(&self.dir, args, content).await;
        String::from_utf8_lossy(&id).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_clone_of_a_pushed_repository_has_its_commit() {
        let home = GitHome::new();
        let work = home.init("work").await;
        let tip = work.commit("first").await;
        home.run(home.path(), ["init", "-q", "--bare", "there.git"])
            .await;
        let url = home.path().join("there.git").display().to_string();
        work.push_to(&url, &["main"]).await.accepted();
        assert_eq!(home.ls_remote(&url).await["refs/heads/main"], tip);
        assert_eq!(home.clone_of(&url, "clone").await.rev("HEAD").await, tip);
        assert_eq!(
            home.remote_head(&url).await.as_deref(),
            Some("refs/heads/main")
        );
        work.push_to(&url, &["absent"]).await.refused();
    }

    #[tokio::test]
    async fn a_pack_holds_what_was_asked_for() {
        let work = GitHome::new().init("work").await;
        let tip = work.commit("first").await;
        let tree = work.rev("HEAD^{tree}").await;
        // Version 2; the count is at offset 8: commit, tree and blob, or the tree alone.
        assert_eq!(work.pack(&[&tip]).await[..12], *b"PACK\0\0\0\x02\0\0\0\x03");
        assert_eq!(
            work.pack_of(&[&tree]).await[..12],
            *b"PACK\0\0\0\x02\0\0\0\x01"
        );
    }
}
