//! What a turn lets a model do: the tools of built-in agents, over the store, the decider and the
//! outbox.
//!
//! What is offered follows from the agent's permissions and from where the turn is; a model can only
//! name a job or a chat that is in its reach. Whatever it writes, the answer is a result in words.

mod arguments;
mod create;
mod declared;
mod jobs;
mod send;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    agent::{AgentTurn, ToolCall, ToolOutput, Toolbox, Tools},
    clock::Clock,
    directory::{Chat, Directory, Permission},
    ids::{AgentName, ChatName, JobId},
    job::{Job, Mode},
    policy::OwnedEvent,
    replay::Tool,
    store::{Store, StoreError},
    transcript::{Block, NewEntry, Role},
};

use super::{
    Applied, Change, ChangeError, Control, Decider, Events, JobChange, JobError, Journal, Services,
};

use arguments::Arguments;
pub(super) use send::Voice;

/// Where a turn is, as far as its tools reach.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The agent.
    pub(super) agent: AgentName,
    /// The chat in which the turn is, or in which its result shows.
    pub(super) chat: Option<Chat>,
    /// The job that runs, if one does.
    pub(super) job: Option<Job>,
}

impl Place {
    /// Where a run is.
    pub(super) fn of_run(agent: &AgentName, job: &Job, directory: &Directory) -> Self {
        let chat = job.chat().and_then(|name| directory.chats.get(name));
        Self {
            agent: agent.clone(),
            chat: chat.cloned(),
            job: Some(job.clone()),
        }
    }

    fn is_background(&self) -> bool {
        let mode = self.job.as_ref().map(|job| &job.mode);
        matches!(mode, Some(Mode::Background { .. }))
    }
}

/// What an agent with these permissions is offered in a person's turn in a chat.
#[cfg(feature = "cli")]
pub(crate) fn tools_in_chat(permissions: &BTreeSet<Permission>, chat: &Chat) -> Vec<Tool> {
    let place = Place {
        agent: chat.agent.clone(),
        chat: Some(chat.clone()),
        job: None,
    };
    offered(permissions, &place)
}

/// What a turn is offered, in the order of all permissions.
fn offered(permissions: &BTreeSet<Permission>, place: &Place) -> Vec<Tool> {
    let is_offered = |permission: &Permission| match permission {
        Permission::ListJobs
        | Permission::PauseJob
        | Permission::ResumeJob
        | Permission::DeleteJob => true,
        Permission::CreateJob => {
            let is_asked_for = !place.is_background();
            let may = is_asked_for || permissions.contains(&Permission::CreateInBackground);
            may && place.chat.is_some()
        }
        Permission::NextCheck => place.job.is_some(),
        Permission::SendMessage => true,
        Permission::AnyJob | Permission::AnyChat | Permission::CreateInBackground => false,
    };
    let permissions = permissions.iter().copied().filter(is_offered);
    permissions.filter_map(declared::tool).collect()
}

/// What the tools of one attempt have done, besides what is committed already.
#[derive(Debug, Default)]
struct Record {
    /// Every call with its result, as rows.
    rows: Vec<NewEntry>,
    /// What was sent.
    sends: Vec<send::ToolText>,
}

/// The tools of one attempt.
pub(super) struct TurnTools {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    services: Arc<Services>,
    journal: Option<Arc<Journal>>,
    events: Events,
    place: Place,
    voice: Voice,
    permissions: BTreeSet<Permission>,
    offered: Vec<Tool>,
    record: Mutex<Record>,
}

/// What a tool answers: either way it is for the model.
type Answered = Result<ToolOutput, ToolOutput>;

impl TurnTools {
    /// The tools of an attempt of this agent, in this place.
    pub(super) fn new(call: &super::execute::Call, place: Place, voice: Voice) -> Arc<Self> {
        let config = call.services.directory.agents.get(&place.agent);
        let permissions = config.map(|agent| agent.tools.clone()).unwrap_or_default();
        Arc::new(Self {
            store: call.store.clone(),
            clock: call.clock.clone(),
            services: call.services.clone(),
            journal: call.journal.clone(),
            events: call.events.clone(),
            offered: offered(&permissions, &place),
            place,
            voice,
            permissions,
            record: Mutex::default(),
        })
    }

    /// Gives the tools to a turn, if there are any.
    pub(super) fn equip(self: &Arc<Self>, turn: &mut AgentTurn) {
        if !self.offered.is_empty() {
            turn.tools = Toolbox::new(self.clone());
        }
    }

    /// The calls that were made and their results, for an attempt that has no answer.
    pub(super) fn rows(&self) -> Vec<NewEntry> {
        self.recorded(|record| record.rows.clone())
    }

    fn recorded<T>(&self, with: impl FnOnce(&mut Record) -> T) -> T {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        with(&mut record)
    }

    async fn answer(&self, call: &ToolCall) -> Answered {
        let tool = self.offered.iter().find(|tool| tool.name == call.name);
        let tool = tool.ok_or_else(|| {
            let names = self.offered.iter().map(|tool| tool.name);
            ToolOutput::refused(format!("there is no such tool; there are {}", list(names)))
        })?;
        let arguments = Arguments::read(tool, &call.input)?;
        // Only tools that are offered come here, and each is named by its permission.
        match Permission::of_word(tool.name) {
            Some(Permission::ListJobs) => self.list_jobs().await,
            Some(Permission::PauseJob) => self.pause_job(&arguments).await,
            Some(Permission::ResumeJob) => self.resume_job(&arguments).await,
            Some(Permission::DeleteJob) => self.delete_job(&arguments).await,
            Some(Permission::CreateJob) => self.create_job(&arguments).await,
            Some(Permission::NextCheck) => self.next_check(&arguments).await,
            Some(Permission::SendMessage) => self.send_message(&arguments).await,
            Some(Permission::AnyJob | Permission::AnyChat | Permission::CreateInBackground)
            | None => Err(ToolOutput::refused("this tool does nothing here")),
        }
    }

    fn may(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
    }

    /// Whether a job is in the turn's reach: it posts to the chat, or is the one that runs.
    fn reaches(&self, job: &Job) -> bool {
        let chat = self.place.chat.as_ref().map(|chat| &chat.name);
        let posts_here = chat.is_some() && job.chat() == chat;
        let is_own = self.place.job.as_ref().is_some_and(|own| own.id == job.id);
        posts_here || is_own || self.may(Permission::AnyJob)
    }

    /// What is asked of jobs on behalf of the turn.
    fn control(&self) -> Control<'_> {
        Control {
            store: self.store.as_ref(),
            directory: &self.services.directory,
            journal: self.journal.as_deref(),
        }
    }

    /// Decides and commits one change, as the worker would.
    async fn change(&self, change: Change, now: Timestamp) -> Result<Applied, ToolOutput> {
        let chats: &BTreeMap<ChatName, Chat> = &self.services.directory.chats;
        let decider = Decider::new(self.store.as_ref(), chats, self.journal.as_deref());
        let (job_id, what) = (change.job_id.clone(), JobChange::of(&change.event));
        let answers = decider.apply(&[change], now).await.map_err(unavailable)?;
        match answers.into_iter().next() {
            Some(Ok(applied)) => {
                if let Some(what) = what {
                    self.events.job(now, &job_id, what);
                }
                Ok(applied)
            }
            Some(Err(error)) => Err(refused_change(&error)),
            None => Err(ToolOutput::refused("nothing was changed")),
        }
    }

    /// The same for something that happens to a job that is there.
    async fn tell(&self, job: &JobId, event: OwnedEvent) -> Result<Applied, ToolOutput> {
        let change = Change::new(job.clone(), event);
        self.change(change, self.clock.now()).await
    }
}

#[async_trait]
impl Tools for TurnTools {
    fn offered(&self) -> &[Tool] {
        &self.offered
    }

    async fn call(&self, call: &ToolCall) -> ToolOutput {
        let output = match self.answer(call).await {
            Ok(output) | Err(output) => output,
        };
        let tool = self.offered.iter().find(|tool| tool.name == call.name);
        let tool = tool.map_or("(none)", |tool| tool.name);
        tracing::info!(agent = %self.place.agent, tool, refused = output.is_error, "tool called");
        self.recorded(|record| record.rows.extend(rows_of(call, &output)));
        output
    }
}

/// A call and its result, as history keeps them.
fn rows_of(call: &ToolCall, output: &ToolOutput) -> [NewEntry; 2] {
    let used = Block::ToolUse {
        id: call.id.clone(),
        name: call.name.clone(),
        input: call.input.clone(),
    };
    let result = Block::ToolResult {
        tool_use_id: call.id.clone(),
        content: output.content.clone(),
        is_error: output.is_error,
    };
    [
        NewEntry::blocks(Role::Assistant, vec![used]),
        NewEntry::blocks(Role::Tool, vec![result]),
    ]
}

fn refused_change(error: &ChangeError) -> ToolOutput {
    ToolOutput::refused(error.to_string())
}

fn not_done(error: JobError) -> ToolOutput {
    if let JobError::Store(error) = error {
        return unavailable(error);
    }
    ToolOutput::refused(error.to_string())
}

/// The store's own words may name files; they go to the log.
fn unavailable(error: StoreError) -> ToolOutput {
    tracing::warn!(%error, "a tool could not read or write the store");
    ToolOutput::refused("this cannot be done at the moment; it can be tried again later")
}

/// "`a`, `b`", or "none".
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
