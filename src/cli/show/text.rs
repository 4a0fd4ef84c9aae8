//! Everything about one job, for people.

use jiff::Timestamp;

use crate::{
    cli::{
        incidents, plain,
        runs::{Line, detail, lines},
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    job::{Alert, CatchUp, Deliver, Job, Late, Mode, OnInterrupt, OnUnknown, Overlap, Policies},
    store::{DiagnosticRow, JobSource, StoredJob},
    view::{RUNS_SHOWN, Shown, State},
};

pub(super) fn render(shown: &Shown, now: Timestamp, screen: Screen) -> String {
    let job = &shown.stored.job;
    let mut out = screen.toned(job.id.as_str(), Tone::Strong);
    if job.display_name() != job.id.as_str() {
        out.push_str(&format!("   {}", plain::line(job.display_name())));
    }
    out.push('\n');
    out.push_str(&facts(shown, now, screen));
    out.push_str(&times(shown, now, screen));
    let all = crate::cli::runs::interleaved(
        shown.runs.clone(),
        shown.skipped.clone(),
        usize::try_from(RUNS_SHOWN).unwrap_or(usize::MAX),
    );
    if all.is_empty() {
        out.push_str("it has not run yet\n");
    } else {
        out.push_str("last runs\n");
        out.push_str(&last_runs(&all, shown, now, screen));
    }
    if !shown.diagnostics.is_empty() {
        out.push_str("worth knowing\n");
        out.push_str(&worth_knowing(shown, screen));
    }
    out
}

fn last_runs(all: &[Line], shown: &Shown, now: Timestamp, screen: Screen) -> String {
    let job = &shown.stored.job;
    let zones = [(job.id.clone(), job.schedule.zone.clone())].into();
    lines::render(all, &zones, now, screen)
}

fn worth_knowing(shown: &Shown, screen: Screen) -> String {
    let named: Vec<DiagnosticRow> = shown
        .diagnostics
        .iter()
        .map(|(run, row)| DiagnosticRow {
            message: format!("run {run}: {}", row.message),
            ..row.clone()
        })
        .collect();
    detail::diagnostics(&named, screen)
}

fn facts(shown: &Shown, now: Timestamp, screen: Screen) -> String {
    let stored = &shown.stored;
    let job = &stored.job;
    let chat_of = |name: &_| shown.chats.iter().find(|chat| chat.name == *name);
    let mut table = Table::new([Column::Left, Column::Breaks]).indent(2);
    table.row(["when".into(), words::schedule(&job.schedule).into()]);
    table.row(["where".into(), words::route(&job.mode, chat_of).into()]);
    table.row(["agent".into(), agent(job).into()]);
    table.row(["state".into(), state(shown, now)]);
    for row in &shown.incidents {
        let line = incidents::line(stored, row, &shown.chats, now);
        table.row(["fails".into(), Cell::toned(line, Tone::Bad)]);
    }
    table.row(["rules".into(), rules(job).into()]);
    table.row(["prompt".into(), plain::lines(&job.prompt).into()]);
    table.row(["from".into(), source(stored, now).into()]);
    table.render(screen)
}

fn agent(job: &Job) -> String {
    match &job.mode {
        Mode::InChat { agent: None, .. } => String::from("the chat's own"),
        Mode::InChat {
            agent: Some(agent), ..
        } => agent.to_string(),
        Mode::Background {
            agent,
            memory,
            context,
            ..
        } => {
            let mut text = agent.to_string();
            if *memory {
                text.push_str(", remembers its own earlier runs");
            }
            if let Some(context) = context {
                text.push_str(&format!(
                    ", is shown the last {} of {}",
                    words::counted(context.last, "message"),
                    context.chat
                ));
            }
            text
        }
    }
}

fn state(shown: &Shown, now: Timestamp) -> Cell {
    let stored = &shown.stored;
    let zone = words::zone(&stored.job.schedule.zone);
    let mut text = match &shown.standing.state {
        State::Disabled => String::from("disabled (`enabled = false`)"),
        State::Finished => String::from("finished: nothing comes any more"),
        State::Removed => String::from("removed; its history is kept"),
        other @ (State::Ready | State::Running | State::Queued | State::RetryAt(_)) => {
            words::state(other, now)
        }
        State::Paused => String::new(),
    };
    if let Some(pause) = &shown.standing.pause {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&format!(
            "paused since {}: {}; it does not run until it is resumed",
            words::moment(pause.since, now, &zone),
            plain::line(&pause.reason)
        ));
    }
    let started = u64::from(stored.state.started_runs);
    text.push_str(&format!("; started {}", words::counted(started, "time")));
    if let Some(max) = stored.job.policies.max_runs {
        text.push_str(&format!(" of at most {max}"));
    }
    let streak = stored.state.failure_streak;
    if streak == 0 {
        return text.into();
    }
    text.push_str(&format!(
        "; failed {} in a row",
        words::counted(streak, "time")
    ));
    Cell::toned(text, Tone::Bad)
}

fn rules(job: &Job) -> String {
    let policies = &job.policies;
    let catch_up = match (policies.catch_up, policies.catch_up_window) {
        (CatchUp::None, _) => String::from("missed slots are skipped"),
        (CatchUp::Latest, None) => String::from("the latest missed slot is caught up"),
        (CatchUp::Latest, Some(window)) => {
            format!(
                "the latest missed slot is caught up within {}",
                words::exact(window)
            )
        }
        (CatchUp::All, None) => String::from("missed slots are caught up one after another"),
        (CatchUp::All, Some(window)) => {
            format!(
                "missed slots are caught up one after another within {}",
                words::exact(window)
            )
        }
    };
    let overlap = match policies.overlap {
        Overlap::Skip => "a slot that meets a run is skipped",
        Overlap::BufferOne => "one slot that meets a run waits for its end",
        Overlap::BufferAll => "slots that meet a run wait for their turn",
        Overlap::CancelRunning => "a slot that meets a run calls it off",
        Overlap::Allow => "a slot that meets a run starts beside it",
    };
    let waits: Vec<String> = policies
        .retry
        .backoff
        .iter()
        .copied()
        .map(words::exact)
        .collect();
    let retry = match policies.retry.attempts {
        1 => String::from("1 attempt"),
        attempts => format!("{attempts} attempts, {} apart", waits.join(", ")),
    };
    let interrupted = match policies.on_interrupt {
        OnInterrupt::Retry => "an interrupted run is tried again",
        OnInterrupt::Fail => "an interrupted run has failed",
    };
    let effects = if policies.retry_after_effects {
        "an attempt that had effects is tried again"
    } else {
        "one that had effects is not repeated"
    };
    let unknown = match policies.on_unknown {
        OnUnknown::Hold => "a message in doubt waits for your word",
        OnUnknown::Resend => "a message in doubt is sent again",
    };
    let pauses = match policies.pause_after_failures {
        Some(1) => String::from("; pauses after a failure"),
        Some(failures) => format!("; pauses after {failures} failures in a row"),
        None => String::new(),
    };
    format!(
        "{catch_up}; {overlap}; {retry}; {} each at most; {interrupted}; {effects}{pauses}; {unknown}; {}{}",
        words::exact(policies.timeout),
        alert(policies),
        late(job),
    )
}

fn alert(policies: &Policies) -> String {
    match (policies.alert, &policies.alert_to) {
        (Alert::Never, _) => String::from("nobody is told that it fails"),
        (Alert::Once { after, .. }, chat) => {
            let place = match chat {
                Some(chat) => format!("chat {chat}"),
                None => String::from("its chat"),
            };
            format!(
                "{place} is told after {}",
                words::counted(u64::from(after), "failure")
            )
        }
    }
}

fn late(job: &Job) -> String {
    let Mode::Background {
        deliver: Deliver::Chat(_) | Deliver::Webhook(_),
        ..
    } = job.mode
    else {
        return String::new();
    };
    let after = words::exact(job.policies.late_after);
    match job.policies.late {
        Late::Label => format!("; a result that is {after} late says so"),
        Late::Withhold => format!("; a result that is {after} late is not shown"),
    }
}

fn source(stored: &StoredJob, now: Timestamp) -> String {
    let place = match &stored.source {
        JobSource::File(name) => plain::line(name),
        JobSource::Runtime(creator) => format!("created by {}", plain::line(creator)),
    };
    let zone = words::zone(&stored.job.schedule.zone);
    let mut text = format!(
        "{place}, first seen {}",
        words::moment(stored.first_seen_at, now, &zone)
    );
    if stored.revision > 1 {
        text.push_str(&format!(", revision {}", stored.revision));
    }
    text
}

fn times(shown: &Shown, now: Timestamp, screen: Screen) -> String {
    if shown.times.is_empty() {
        return String::new();
    }
    let zone = words::zone(&shown.stored.job.schedule.zone);
    let mut table = Table::new([Column::Left, Column::Left, Column::Breaks]).indent(2);
    for start in &shown.times {
        let local = start.at.to_zoned_datetime(zone.clone()).datetime();
        let note = start.note.clone().unwrap_or_default();
        table.row([
            words::dated(local).into(),
            words::from_now(start.at, now).into(),
            Cell::toned(note, Tone::Warn),
        ]);
    }
    format!("next\n{}", table.render(screen))
}
