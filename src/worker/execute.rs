//! One attempt: ask the agent, and say what shall be committed of its answer.
//!
//! Runs in a task of its own and writes nothing: the worker's loop commits what it returns.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use jiff::{SignedDuration, tz::TimeZone};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{AgentError, AgentReply, AgentTurn, EffectReporter},
    clock::Clock,
    ids::{RunId, TurnId},
    job::{Late, Mode, OnUnknown},
    measure,
    message::{Destination, Origin, Payload, Receipt},
    occurrence::{FailReason, OccurrenceRef},
    outbound::{Author, compose, compose_shown},
    policy::{AttemptResult, outbox::LateRule},
    session::{
        AnsweredHere, AskError, Said, ask_for_run, ask_for_turn, run_rows, said, turn_rows,
        unanswered_rows, unanswered_turn_rows,
    },
    store::{
        AttemptEnd, AttemptFate, ClaimedRun, ClaimedTurn, Diagnostic, LateNotice, Level,
        NewMessage, PostedBy, SentBy, Store, TurnEnd, TurnResult,
    },
    transcript::TriggerSource,
};

use super::{
    Events, Journal, Services,
    lent::{Lent, LentEnd, Runners},
    recover::ended,
    tools::{Place, TurnTools, Voice},
};

/// How long an agent that was asked to stop may take before it is abandoned.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What an attempt needs.
pub(super) struct Call {
    pub(super) store: Arc<dyn Store>,
    pub(super) store_id: Arc<str>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) services: Arc<Services>,
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) events: Events,
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
    let directory = &call.services.directory;
    let by = SentBy::Run(run.run_id, run.epoch);
    let effects = EffectReporter::of(call.store.clone(), by, call.clock.clone());
    let asked = ask_for_run(call.store.as_ref(), directory, run, effects.clone()).await;
    let mut turn = match asked {
        Ok(turn) => turn,
        Err(error) => return failed(run, error.into()),
    };
    let voice = Voice {
        author: author_of_run(call, run, &turn),
        by,
        effects: effects.clone(),
    };
    let place = Place::of_run(&turn.agent, &run.job, directory);
    let tools = TurnTools::new(call, place, voice);
    tools.equip(&mut turn);
    let asked = ask(call, &turn, run.job.policies.timeout, cancel).await;
    // An agent that was abandoned may still be at work: it has no more effects by its own leave.
    effects.close().await;
    match asked {
        Ok(reply) => answered(call, run, &turn, &tools, reply),
        Err(unanswered) => {
            let mut done = failed(run, unanswered);
            done.end.entries = unanswered_rows(&turn, tools.rows());
            done
        }
    }
}

fn failed(run: &ClaimedRun, unanswered: Unanswered) -> RunDone {
    let result = AttemptResult::Failed(unanswered.reason);
    RunDone {
        result,
        end: AttemptEnd {
            error: Some(unanswered.words),
            ..ended(run, AttemptFate::Ended(result))
        },
    }
}

fn answered(
    call: &Call,
    run: &ClaimedRun,
    turn: &AgentTurn,
    tools: &TurnTools,
    reply: AgentReply,
) -> RunDone {
    let (message, has_result) = match said(&reply.text) {
        Said::Nothing => (None, false),
        Said::Words(words) => {
            let message = message_of_run(call, run, turn, tools, words);
            // Kept in run history, where there is nowhere to send it.
            let has_result = message.is_some() || run.destination.is_none();
            (message, has_result)
        }
    };
    let result = if has_result || tools.has_sent() {
        AttemptResult::Done
    } else {
        AttemptResult::Silent
    };
    let answered_here = match run.job.mode {
        Mode::InChat { .. } => AnsweredHere::Yes,
        Mode::Background { .. } => AnsweredHere::No,
    };
    let end = AttemptEnd {
        diagnostics: cut(&reply, Some(run.run_id), None),
        entries: run_rows(turn, &reply, answered_here),
        output: Some(reply.text),
        usage: reply.usage,
        message,
        ..ended(run, AttemptFate::Ended(result))
    };
    RunDone { result, end }
}

/// Says that an answer is not whole.
fn cut(reply: &AgentReply, run_id: Option<RunId>, turn_id: Option<TurnId>) -> Vec<Diagnostic> {
    let diagnostic = Diagnostic {
        run_id,
        turn_id,
        part_id: None,
        level: Level::Warn,
        code: "cut",
        message: String::from(
            "the answer is not whole: it was as long as the agent's `max_tokens` lets it be",
        ),
    };
    if reply.is_cut {
        vec![diagnostic]
    } else {
        Vec::new()
    }
}

fn message_of_run(
    call: &Call,
    run: &ClaimedRun,
    turn: &AgentTurn,
    tools: &TurnTools,
    words: String,
) -> Option<NewMessage> {
    let destination = run.destination.clone()?;
    let author = Author {
        origin: match run.job.mode {
            Mode::InChat { .. } => Origin::TurnReply,
            Mode::Background { .. } => Origin::JobResult,
        },
        late: late_notice(run),
        ..author_of_run(call, run, turn)
    };
    let behind = tools.said_by_tool(&destination, &words);
    let words = Payload::Text(words);
    let message = compose(author, 0, destination, words, &call.services.channels)?;
    Some(NewMessage { behind, ..message })
}

/// The author of what tools of a run send.
fn author_of_run(call: &Call, run: &ClaimedRun, turn: &AgentTurn) -> Author {
    let job = &run.job;
    Author {
        producer: format!("{}:occurrence:{}", call.store_id, run.occurrence_id),
        origin: Origin::MessageTool,
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
        late: None,
    }
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
    let (asked, tools) = match equipped_turn(call, turn).await {
        Ok(equipped) => equipped,
        Err(unanswered) => return unanswered_turn(blank(turn), unanswered),
    };
    let answer = ask(call, &asked, call.services.turn_timeout, cancel).await;
    // As for a run: what was abandoned has no more effects by its own leave.
    asked.effects.close().await;
    match answer {
        Ok(reply) => answered_turn(call, turn, &asked, &tools, reply),
        Err(unanswered) => TurnEnd {
            entries: unanswered_turn_rows(&asked, tools.rows()),
            ..unanswered_turn(blank(turn), with_effects(unanswered, &asked.effects))
        },
    }
}

/// Why a turn has no answer: one that had effects is not merely interrupted, and not tried again.
fn with_effects(unanswered: Unanswered, effects: &EffectReporter) -> Unanswered {
    if unanswered.reason != FailReason::Interrupted || !effects.has_reported() {
        return unanswered;
    }
    Unanswered {
        reason: FailReason::AfterEffects,
        words: "interrupted after effects".to_owned(),
    }
}

/// Lends one turn of a person to the program that waits for it under the token, and holds the lane
/// meanwhile. One that nobody waits for any more is closed: no agent answers in the program's place.
pub(super) async fn lend(
    call: &Call,
    turn: &ClaimedTurn,
    token: &str,
    runners: &Runners,
    cancel: CancellationToken,
) -> TurnEnd {
    let (asked, tools) = match equipped_turn(call, turn).await {
        Ok(equipped) => equipped,
        Err(unanswered) => return unanswered_turn(blank(turn), unanswered),
    };
    let over = cancel.child_token();
    // Whatever comes of it, the program learns that the lane is held no longer; after its end is no
    // longer taken, so that it is not told too soon.
    let _over = over.clone().drop_guard();
    let (end, mut ended) = oneshot::channel();
    let lent = Lent {
        turn_id: turn.turn_id,
        asked: asked.clone(),
        over,
        end,
        saved: runners.tell_when_saved(turn.turn_id),
    };
    let failed = |words: &str| TurnEnd {
        entries: unanswered_turn_rows(&asked, tools.rows()),
        result: TurnResult::Failed {
            error: words.to_owned(),
        },
        ..blank(turn)
    };
    if !runners.hand_over(token, lent) {
        return failed("interrupted: the program that ran it is gone");
    }
    let requeued = || TurnEnd {
        result: TurnResult::Requeued,
        ..blank(turn)
    };
    let limit = Duration::try_from(call.services.turn_timeout).unwrap_or(Duration::ZERO);
    tokio::select! {
        biased;
        end = &mut ended => match end {
            Ok(LentEnd::Reply(reply)) => answered_turn(call, turn, &asked, &tools, reply),
            Ok(LentEnd::Shown(reply, parts)) => shown_turn(call, turn, &asked, reply, parts),
            Ok(LentEnd::Failed(error)) => failed(&error),
            // The program was told that it holds the lane no longer, and has let go of it.
            Err(_dropped) if cancel.is_cancelled() => requeued(),
            Err(_dropped) => failed("the program that ran it has given it up"),
        },
        () = call.clock.sleep(limit) => failed("the program that ran it took too long"),
        () = cancel.cancelled() => requeued(),
    }
}

/// The end of a turn that has come to nothing yet.
fn blank(turn: &ClaimedTurn) -> TurnEnd {
    TurnEnd {
        turn_id: turn.turn_id,
        epoch: turn.epoch,
        result: TurnResult::Done,
        usage: None,
        entries: Vec::new(),
        message: None,
        shown: Vec::new(),
        diagnostics: Vec::new(),
    }
}

/// What a turn is given, with its tools.
async fn equipped_turn(
    call: &Call,
    turn: &ClaimedTurn,
) -> Result<(AgentTurn, Arc<TurnTools>), Unanswered> {
    let directory = &call.services.directory;
    let by = SentBy::Turn(turn.turn_id, turn.epoch);
    let effects = EffectReporter::of(call.store.clone(), by, call.clock.clone());
    let mut asked = ask_for_turn(call.store.as_ref(), directory, turn, effects).await?;
    let place = Place {
        agent: asked.agent.clone(),
        chat: directory.chat_of_session(&turn.session_key).cloned(),
        job: None,
    };
    let voice = Voice {
        author: author_of_turn(call, turn, &asked),
        by,
        effects: asked.effects.clone(),
    };
    let tools = TurnTools::new(call, place, voice);
    tools.equip(&mut asked);
    Ok((asked, tools))
}

fn answered_turn(
    call: &Call,
    turn: &ClaimedTurn,
    asked: &AgentTurn,
    tools: &TurnTools,
    reply: AgentReply,
) -> TurnEnd {
    TurnEnd {
        entries: turn_rows(asked, &reply),
        usage: reply.usage,
        message: message_of_turn(call, turn, asked, tools, said(&reply.text)),
        ..blank(turn)
    }
}

/// The end of a turn whose reply the program has shown itself, as these parts.
fn shown_turn(
    call: &Call,
    turn: &ClaimedTurn,
    asked: &AgentTurn,
    reply: AgentReply,
    parts: Vec<(String, Receipt)>,
) -> TurnEnd {
    let chat = call.services.directory.chat_of_session(&turn.session_key);
    let (texts, receipts) = parts.into_iter().unzip();
    let message = chat.map(|chat| {
        let author = Author {
            origin: Origin::TurnReply,
            ..author_of_turn(call, turn, asked)
        };
        compose_shown(author, Destination::Chat(chat.into()), texts)
    });
    TurnEnd {
        entries: turn_rows(asked, &reply),
        usage: reply.usage,
        message,
        shown: receipts,
        ..blank(turn)
    }
}

fn unanswered_turn(blank: TurnEnd, unanswered: Unanswered) -> TurnEnd {
    let result = if unanswered.reason == FailReason::Interrupted {
        TurnResult::Requeued
    } else {
        TurnResult::Failed {
            error: unanswered.words,
        }
    };
    TurnEnd { result, ..blank }
}

fn message_of_turn(
    call: &Call,
    turn: &ClaimedTurn,
    asked: &AgentTurn,
    tools: &TurnTools,
    said: Said,
) -> Option<NewMessage> {
    let chat = call.services.directory.chat_of_session(&turn.session_key)?;
    let Said::Words(words) = said else {
        return None;
    };
    let author = Author {
        origin: Origin::TurnReply,
        ..author_of_turn(call, turn, asked)
    };
    let to = Destination::Chat(chat.into());
    let behind = tools.said_by_tool(&to, &words);
    let words = Payload::Text(words);
    let message = compose(author, 0, to, words, &call.services.channels)?;
    Some(NewMessage { behind, ..message })
}

/// The author of what tools of a person's turn send.
fn author_of_turn(call: &Call, turn: &ClaimedTurn, asked: &AgentTurn) -> Author {
    Author {
        producer: format!("{}:turn:{}", call.store_id, turn.turn_id),
        origin: Origin::MessageTool,
        agent: asked.agent.clone(),
        trigger_source: Some(turn.trigger),
        posted_by: None,
        run: None,
        turn_id: Some(turn.turn_id),
        on_unknown: OnUnknown::Hold,
        late: None,
    }
}

/// Asks the agent, and measures how long it takes.
async fn ask(
    call: &Call,
    turn: &AgentTurn,
    timeout: SignedDuration,
    cancel: CancellationToken,
) -> Result<AgentReply, Unanswered> {
    let before = call.clock.elapsed();
    let asked = ask_within(call, turn, timeout, cancel).await;
    let result = match &asked {
        Ok(_) => "answered",
        Err(unanswered) => unanswered.reason.as_str(),
    };
    let took = call.clock.elapsed().saturating_sub(before);
    measure::agent(&turn.agent, result, took);
    asked
}

/// Asks the agent, within its time. One that does not stop when asked is abandoned: its late
/// answer has nowhere to go.
async fn ask_within(
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
