//! A temporary PostgreSQL server, one for each test binary: made by `initdb`, reached by a socket in
//! its own folder, and gone with the process that started it, however that ends.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{
    fs,
    io::{self, Write},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

/// A server refuses to run as root; `nobody` can run one.
const NOBODY: u32 = 65534;
const SUPERUSER: &str = "chatcron";

/// Set where a machine without a server is a failure: there the tests are not skipped.
const REQUIRED: &str = "CHATCRON_REQUIRE_POSTGRES";

/// Reads a line that never comes: its end is the end of the process that started it.
const UNTIL_ITS_STARTER_ENDS: &str = "\
\"$0\"/postgres -D \"$1\"/data -k \"$1\" -c listen_addresses= -c fsync=off -c max_connections=300 \
  >\"$1\"/log 2>&1 &
server=$!
read -r line
kill -QUIT $server 2>/dev/null
wait $server
rm -rf \"$1\"";

/// A running server.
pub(crate) struct Cluster {
    folder: PathBuf,
    programs: PathBuf,
    guard: Mutex<Child>,
    databases: AtomicU32,
}

impl Cluster {
    /// The server of this test binary; `None`, said aloud, where the machine has none.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A server of one test's own, which it may stop and break.
    pub(crate) fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            let required = std::env::var_os(REQUIRED).is_some();
            assert!(
                !required,
                "{REQUIRED} is set, and there is no PostgreSQL server here"
            );
            // Not captured, as the words of a test are.
            let words = "SKIPPED: there is no PostgreSQL server (`initdb`) on this machine\n";
            let _ = io::stderr().write_all(words.as_bytes());
            return None;
        };
        let folder = tempfile::Builder::new()
            .prefix("chatcron-pg")
            .tempdir()
            .unwrap()
            .keep();
        own(&folder);
        let init = as_nobody(&programs.join("initdb"))
            .args([
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
                "--no-locale",
                "-U",
                SUPERUSER,
            ])
            .arg("-D")
            .arg(folder.join("data"))
            .output()
            .unwrap();
        assert!(
            init.status.success(),
            "{}",
            String::from_utf8_lossy(&init.stderr)
        );
        let cluster = Self {
            guard: Mutex::new(serve(&programs, &folder)),
            folder,
            programs,
            databases: AtomicU32::new(0),
        };
        cluster.wait_until_ready();
        Some(cluster)
    }

    /// Makes an empty database; returns its address.
    pub(crate) async fn new_database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut conn = self.connect("postgres").await;
        let sql = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::query(sql).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        self.url(&name)
    }

    /// The address of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        let folder = self.folder.display();
        format!("postgres://{SUPERUSER}@localhost/{database}?host={folder}")
    }

    /// A connection of the test's own.
    pub(crate) async fn connect(&self, database: &str) -> PgConnection {
        let options: PgConnectOptions = self.url(database).parse().unwrap();
        options.connect().await.unwrap()
    }

    /// Stops the server at once, as a crash does, and starts it again.
    pub(crate) fn restart(&self) {
        let stop = as_nobody(&self.programs.join("pg_ctl"))
            .args(["stop", "--mode=immediate", "-D"])
            .arg(self.folder.join("data"))
            .output()
            .unwrap();
        assert!(
            stop.status.success(),
            "{}",
            String::from_utf8_lossy(&stop.stderr)
        );
        let start = as_nobody(&self.programs.join("pg_ctl"))
            .args(["start", "--wait", "-o"])
            .arg(format!(
                "-k {} -c listen_addresses= -c fsync=off",
                self.folder.display()
            ))
            .arg("-l")
            .arg(self.folder.join("log"))
            .arg("-D")
            .arg(self.folder.join("data"))
            .output()
            .unwrap();
        assert!(
            start.status.success(),
            "{}",
            String::from_utf8_lossy(&start.stdout)
        );
    }

    fn wait_until_ready(&self) {
        for _ in 0..600 {
            let ready = as_nobody(&self.programs.join("pg_isready"))
                .args(["--quiet", "-h"])
                .arg(&self.folder)
                .status()
                .unwrap();
            if ready.success() {
                return;
            }
            let ended = self.guard.lock().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not answer: {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let guard = self.guard.get_mut().unwrap();
        drop(guard.stdin.take());
        let _ = guard.wait();
    }
}

fn serve(programs: &Path, folder: &Path) -> Child {
    as_nobody(Path::new("/bin/sh"))
        .arg("-c")
        .arg(UNTIL_ITS_STARTER_ENDS)
        .arg(programs)
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn is_root() -> bool {
    let own = fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own));
    own.is_ok_and(|uid| uid == 0)
}

fn own(folder: &Path) {
    if is_root() {
        chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// The folder of `initdb` and the others: on the path, or where Debian puts the newest.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("initdb"));
    let debian = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut debian: Vec<(u32, PathBuf)> = debian
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin/initdb")))
        })
        .collect();
    debian.sort();
    let newest = debian.into_iter().rev().map(|(_, program)| program);
    let found = on_path
        .chain(newest)
        .find_map(|program| program.canonicalize().ok())?;
    found.parent().map(Path::to_owned)
}
