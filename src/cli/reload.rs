//! Reads the jobs file again when it changes, or on SIGHUP.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::{
    cli::{jobs_file, logs, plan, run::Place},
    clock::{Clock, SystemClock},
    wiring::{self, Terminal},
    worker::{ApplyError, WorkerHandle},
};

/// Editors write a file in several steps; it is read when it has been quiet for so long.
const QUIET: Duration = Duration::from_millis(300);

/// How soon a reload that the store refused is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Keeps what the worker does in step with the jobs file, until the worker has stopped. `read_at`
/// is when the file that runs was last modified.
pub(super) async fn watch(
    place: Place,
    prompt_files: Vec<PathBuf>,
    read_at: Option<SystemTime>,
    worker: WorkerHandle,
) {
    let (told, mut changes) = mpsc::channel(1);
    let mut files = Files::new(&place, &prompt_files, told);
    let mut hangup = signal(SignalKind::hangup()).ok();
    // It may have been saved after it was read and before it was watched.
    let mut look_now = jobs_file::modified_at(&place.file) != read_at;
    loop {
        if !look_now {
            tokio::select! {
                Some(()) = changes.recv() => quiet(&mut changes).await,
                () = received(&mut hangup) => {}
            }
        }
        look_now = false;
        match reload(&place, &worker).await {
            Ok(prompt_files) => files.also(&place, &prompt_files),
            Err(ApplyError::Stopped) => return,
            Err(error) => {
                tracing::error!(%error, "the jobs file is not applied yet; trying again");
                tokio::time::sleep(TRY_AGAIN).await;
                look_now = true;
            }
        }
    }
}

/// Waits until nothing has changed for a while.
async fn quiet(changes: &mut mpsc::Receiver<()>) {
    while tokio::time::timeout(QUIET, changes.recv())
        .await
        .is_ok_and(|told| told.is_some())
    {}
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Reads the file and hands it to the worker. Returns the files that prompts are read from.
async fn reload(place: &Place, worker: &WorkerHandle) -> Result<Vec<PathBuf>, ApplyError> {
    let loaded = match jobs_file::load(&place.file, SystemClock.now()) {
        Ok(loaded) => loaded,
        Err(failure) => {
            tracing::error!("nothing changes: {failure}");
            return Ok(Vec::new());
        }
    };
    if plan::is_blank(place, &loaded) {
        return Ok(Vec::new());
    }
    if loaded.has_errors() {
        logs::tell_problems(place.log_format, &place.file, &loaded);
    }
    let Some(file) = loaded.file else {
        tracing::error!("{} is not TOML: nothing changes", place.file.display());
        return Ok(Vec::new());
    };
    let wired = wiring::wire(&file, &place.folder, &place.database, Terminal::Stdout);
    for what in &wired.left_out {
        tracing::error!("{what}");
    }
    let bad = jobs_file::bad_ids(&file);
    let prompt_files = file.prompt_files.clone();
    let change = worker
        .apply(place.source.clone(), file.jobs.clone(), bad, wired.services)
        .await?;
    plan::tell_change(&file, &change);
    for bad in &file.bad_jobs {
        tracing::error!(
            job = bad.name,
            "wrong in the file: it keeps its last good definition"
        );
    }
    Ok(prompt_files)
}

/// The files that are watched.
struct Files {
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    /// The names that matter; the database and its log may be in the same folder.
    names: Arc<Mutex<BTreeSet<OsString>>>,
}

impl Files {
    fn new(place: &Place, prompt_files: &[PathBuf], told: mpsc::Sender<()>) -> Self {
        let names: Arc<Mutex<BTreeSet<OsString>>> = Arc::default();
        let wanted = names.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let is_change = event.is_ok_and(|event| {
                let wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
                let mut names = event.paths.iter().filter_map(|path| path.file_name());
                !event.kind.is_access() && names.any(|name| wanted.contains(name))
            });
            if is_change {
                // A full channel says the same already.
                let _ = told.try_send(());
            }
        });
        let mut files = Self {
            watcher: watcher
                .inspect_err(|error| not_watched(&place.file, error))
                .ok(),
            folders: BTreeSet::new(),
            names,
        };
        files.add(&place.file);
        files.also(place, prompt_files);
        files
    }

    fn also(&mut self, place: &Place, prompt_files: &[PathBuf]) {
        for file in prompt_files {
            self.add(&place.folder.join(file));
        }
    }

    /// Watches the file's folder, since editors put a new file in the place of the old one.
    fn add(&mut self, file: &Path) {
        if let Some(name) = file.file_name() {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.insert(name.to_owned());
        }
        let folder = jobs_file::folder(file);
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        if self.folders.insert(folder.clone())
            && let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive)
        {
            not_watched(&folder, &error);
        }
    }
}

fn not_watched(path: &Path, error: &notify::Error) {
    tracing::warn!(path = %path.display(), %error, "changes are not noticed by themselves; send SIGHUP");
}
