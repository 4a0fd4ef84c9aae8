//! One attempt: ask the agent, and say what shall be committed of its answer.
//!
//! Runs in a task of its own and writes nothing: the worker's loop commits what it returns.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use jiff::{SignedDuration, tz::TimeZone};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{AgentError, AgentReply, AgentTurn, EffectReporter},
    clock::Clock,
    job::{Late, Mode, OnUnknown},
    message::{Destination, Origin, Payload},
    occurrence::{FailReason, OccurrenceRef},
    outbound::{Author, compose},
    policy::{AttemptResult, outbox::LateRule},
    session::{AnsweredHere, AskError, Said, ask_for_run, ask_for_turn, run_rows, said, turn_rows},
    store::{
        AttemptEnd, AttemptFate, ClaimedRun, ClaimedTurn, LateNotice, NewMessage, PostedBy, Store,
        TurnEnd, TurnResult,
    },
    transcript::TriggerSource,
};

use super::{Services, recover::ended};

/// How long an agent that was asked to stop may take before it is abandoned.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What an attempt needs.
pub(super) struct Call {
    pub(super) store: Arc<dyn Store>,
    pub(super) store_id: Arc<str>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) services: Arc<Services>,
}

/// What an attempt of a run came to.
#[derive(Clone)]
pub(super) struct RunDone {
    pub(super) result: AttemptResult,
    pub(super) end: AttemptEnd,
}

impl RunDone {
    /// Whether it failed, so that another one may follow.
    pub(super) fn has_failed(&self) -> bool {
        match self.result {
            AttemptResult::Done | AttemptResult::Silent => false,
            AttemptResult::Failed(_) => true,
        }
    }
}

/// Why an attempt has no answer.
struct Unanswered {
    reason: FailReason,
    words: String,
}

/// Makes one attempt of a run.
pub(super) async fn run(call: &Call, run: &ClaimedRun, cancel: CancellationToken) -> RunDone {
    let effects = EffectReporter::of_run(call.store.clone(), run, call.clock.clone());
    let tried = try_run(call, run, effects.clone(), cancel).await;
    // An agent that was abandoned may still be at work: it has no more effects by its own leave.
    effects.close().await;
    match tried {
        Ok(done) => done,
        Err(unanswered) => {
            let result = AttemptResult::Failed(unanswered.reason);
            RunDone {
                result,
                end: AttemptEnd {
                    error: Some(unanswered.words),
                    ..ended(run, AttemptFate::Ended(result))
                },
            }
        }
    }
}

async fn try_run(
    call: &Call,
    run: &ClaimedRun,
    effects: EffectReporter,
    cancel: CancellationToken,
) -> Result<RunDone, Unanswered> {
    let services = &call.services;
    let turn = ask_for_run(call.store.as_ref(), &services.directory, run, effects).await?;
    let reply = ask(call, &turn, run.job.policies.timeout, cancel).await?;
    let (message, has_result) = match said(&reply.text) {
        Said::Nothing => (None, false),
        Said::Words(words) => {
            let message = message_of_run(call, run, &turn, words);
            // Kept in run history, where there is nowhere to send it.
            let has_result = message.is_some() || run.destination.is_none();
            (message, has_result)
        }
    };
    let result = if has_result {
        AttemptResult::Done
    } else {
        AttemptResult::Silent
    };
    let answered_here = match run.job.mode {
        Mode::InChat { .. } => AnsweredHere::Yes,
        Mode::Background { .. } => AnsweredHere::No,
    };
    let end = AttemptEnd {
        entries: run_rows(&turn, &reply, answered_here),
        output: Some(reply.text),
        usage: reply.usage,
        message,
        ..ended(run, AttemptFate::Ended(result))
    };
    Ok(RunDone { result, end })
}

fn message_of_run(
    call: &Call,
    run: &ClaimedRun,
    turn: &AgentTurn,
    words: String,
) -> Option<NewMessage> {
    let destination = run.destination.clone()?;
    let job = &run.job;
    let author = Author {
        producer: format!("{}:occurrence:{}", call.store_id, run.occurrence_id),
        origin: match job.mode {
            Mode::InChat { .. } => Origin::TurnReply,
            Mode::Background { .. } => Origin::JobResult,
        },
        agent: turn.agent.clone(),
        trigger_source: Some(TriggerSource::Cron),
        posted_by: Some(PostedBy {
            job_id: job.id.clone(),
            name: job.display_name().to_owned(),
            zone: job.schedule.zone.clone(),
        }),
        run: Some((run.run_id, run.attempt)),
        turn_id: None,
        on_unknown: job.policies.on_unknown,
        late: late_notice(run),
    };
    compose(
        author,
        0,
        destination,
        Payload::Text(words),
        &call.services.channels,
    )
}

/// What is done with a background result that is shown long after its slot; what was asked for by
/// hand has none.
fn late_notice(run: &ClaimedRun) -> Option<LateNotice> {
    let (Mode::Background { .. }, OccurrenceRef::Scheduled(_)) = (&run.job.mode, &run.occurrence)
    else {
        return None;
    };
    let rule = LateRule::of(run.nominal_at, &run.job.policies);
    let zone = TimeZone::get(&run.job.schedule.zone).unwrap_or(TimeZone::UTC);
    let due = run.nominal_at.to_zoned_datetime(zone);
    Some(LateNotice {
        rule,
        label: (rule.late == Late::Label).then(|| {
            due.strftime("(late: this was due %a %Y-%m-%d %H:%M)")
                .to_string()
        }),
    })
}

/// Answers one turn of a person.
pub(super) async fn turn(call: &Call, turn: &ClaimedTurn, cancel: CancellationToken) -> TurnEnd {
    let blank = TurnEnd {
        turn_id: turn.turn_id,
        epoch: turn.epoch,
        result: TurnResult::Done,
        usage: None,
        entries: Vec::new(),
        message: None,
        diagnostics: Vec::new(),
    };
    match try_turn(call, turn, cancel).await {
        Ok((asked, reply, message)) => TurnEnd {
            entries: turn_rows(&asked, &reply),
            usage: reply.usage,
            message,
            ..blank
        },
        Err(Unanswered {
            reason: FailReason::Interrupted,
            ..
        }) => TurnEnd {
            result: TurnResult::Requeued,
            ..blank
        },
        Err(unanswered) => TurnEnd {
            result: TurnResult::Failed {
                error: unanswered.words,
            },
            ..blank
        },
    }
}

async fn try_turn(
    call: &Call,
    turn: &ClaimedTurn,
    cancel: CancellationToken,
) -> Result<(AgentTurn, AgentReply, Option<NewMessage>), Unanswered> {
    let services = &call.services;
    let asked = ask_for_turn(call.store.as_ref(), &services.directory, turn).await?;
    let reply = ask(call, &asked, services.turn_timeout, cancel).await?;
    let chat = services.directory.chat_of_session(&turn.session_key);
    let message = match (said(&reply.text), chat) {
        (Said::Words(words), Some(chat)) => {
            let author = Author {
                producer: format!("{}:turn:{}", call.store_id, turn.turn_id),
                origin: Origin::TurnReply,
                agent: asked.agent.clone(),
                trigger_source: Some(turn.trigger),
                posted_by: None,
                run: None,
                turn_id: Some(turn.turn_id),
                on_unknown: OnUnknown::Hold,
                late: None,
            };
            let to = Destination::Chat(chat.into());
            compose(author, 0, to, Payload::Text(words), &services.channels)
        }
        (Said::Words(_) | Said::Nothing, _) => None,
    };
    Ok((asked, reply, message))
}

/// Asks the agent, within its time. One that does not stop when asked is abandoned: its late
/// answer has nowhere to go.
async fn ask(
    call: &Call,
    turn: &AgentTurn,
    timeout: SignedDuration,
    cancel: CancellationToken,
) -> Result<AgentReply, Unanswered> {
    let Some(agent) = call.services.agents.get(&turn.agent) else {
        return Err(Unanswered {
            reason: FailReason::Permanent,
            words: format!("agent `{}` is not configured", turn.agent),
        });
    };
    // Its own token: a time-out stops the agent, and is no word of whoever called it off.
    let stop = cancel.child_token();
    let asking = AssertUnwindSafe(agent.reply(turn, &stop)).catch_unwind();
    tokio::pin!(asking);
    let limit = Duration::try_from(timeout).unwrap_or(Duration::ZERO);
    let ended = tokio::select! {
        answer = &mut asking => Ended::Answered(answer),
        () = call.clock.sleep(limit) => Ended::TimedOut,
        () = cancel.cancelled() => Ended::CalledOff,
    };
    let why = match ended {
        Ended::Answered(Ok(Ok(reply))) => return Ok(reply),
        Ended::Answered(Ok(Err(error))) => return Err(error.into()),
        Ended::Answered(Err(_panic)) => {
            return Err(Unanswered {
                reason: FailReason::Panicked,
                words: "the agent's code panicked".to_owned(),
            });
        }
        Ended::TimedOut => Unanswered {
            reason: FailReason::Timeout,
            words: format!("no answer within {timeout:#}"),
        },
        Ended::CalledOff => AgentError::Cancelled.into(),
    };
    stop.cancel();
    // It may have a process or a connection to close.
    let _ = tokio::time::timeout(STOP_GRACE, asking).await;
    Err(why)
}

enum Ended<T> {
    Answered(T),
    TimedOut,
    CalledOff,
}

impl From<AgentError> for Unanswered {
    fn from(error: AgentError) -> Self {
        let reason = match &error {
            AgentError::Transient { .. } => FailReason::Transient,
            AgentError::Permanent { .. } => FailReason::Permanent,
            // Whoever called it off decides about the run; until then it counts as interrupted.
            AgentError::Cancelled => FailReason::Interrupted,
        };
        Self {
            reason,
            words: error.to_string(),
        }
    }
}

impl From<AskError> for Unanswered {
    fn from(error: AskError) -> Self {
        let reason = match &error {
            AskError::Store(_) => FailReason::Transient,
            AskError::Unknown { .. } => FailReason::Permanent,
        };
        Self {
            reason,
            words: error.to_string(),
        }
    }
}
