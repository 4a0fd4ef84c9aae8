//! A small gateway that embeds chatcron: an agent and a channel of its own, two chats, people who
//! write while jobs deliver, a message tool, a subagent's announcement, and a job that fails.
//!
//! The channel keeps its own log, outside of the database. At the end the histories are held
//! against it, and the exit code says whether they agree.
//!
//! ```text
//! cargo run --example gateway --no-default-features --features sqlite -- FOLDER
//! ```

mod board;
mod brain;

use std::{collections::BTreeMap, error::Error, path::PathBuf, process::ExitCode, time::Duration};

use chatcron::{
    Chat, Chatcron, Clock, EventReader, Happened, JobDraft, OutboundMessage, OutboxScope,
    OwnOrigin, ShownLine, SystemClock, ToolCall, ToolOutput, UserMessage,
    ids::{ChatKind, PartId},
};
use serde_json::json;

use board::Board;
use brain::Brain;

type Failed = Box<dyn Error>;

/// How long the gateway waits for what it expects.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<ExitCode, Failed> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or("name a folder for the database and the log")?;
    let board = Board::open(&folder.join("board.jsonl"))?;
    let chatcron = Chatcron::builder()
        .database(format!("sqlite:{}", folder.join("chatcron.db").display()))
        .agent("brain", Brain)
        .channel("board", board.clone())
        .chat(chat("ada", "1")?)
        .chat(chat("ops", "2")?)
        .timezone("UTC")
        .build()
        .await?;
    create_jobs(&chatcron).await?;
    let events = chatcron.events();
    let worker = chatcron.start().await?;
    let told = tokio::spawn(tell(events));

    // People write while jobs deliver into their chats.
    let (ada, ops) = tokio::join!(ada_talks(&chatcron, &board), ops_asks(&chatcron, &board));
    ada?;
    ops?;
    announce(&chatcron).await?;
    for job in ["news", "check-in"] {
        chatcron.jobs().pause(job, "the example is over").await?;
    }
    for _ in 0..2 {
        until_quiet(&chatcron).await?;
        chatcron.jobs().trigger("broken").await?;
    }
    until_quiet(&chatcron).await?;
    worker.shutdown().await;
    told.abort();
    prove(&chatcron, &board).await
}

fn chat(name: &str, address: &str) -> Result<Chat, Failed> {
    Ok(Chat {
        name: name.parse()?,
        channel: "board".parse()?,
        account: None,
        kind: ChatKind::Direct,
        address: address.to_owned(),
        thread: None,
        agent: "brain".parse()?,
    })
}

/// Jobs that a gateway creates at run time, as its users ask for them.
async fn create_jobs(chatcron: &Chatcron) -> Result<(), Failed> {
    let every_second = |id: &str, prompt: &str| {
        JobDraft::new(id)
            .set("every", "1s")
            .set("prompt", prompt)
            .set("alert", false)
    };
    let news = every_second("news", "What is new?").set("deliver", "ada");
    let check_in = every_second("check-in", "Say how it goes.").set("chat", "ops");
    let broken = JobDraft::new("broken")
        .set("every", "24h")
        .set("prompt", "fail")
        .set("deliver", "ada")
        .set("alert", json!({ "after": 2 }))
        .set("alert_to", "ops");
    for draft in [news, check_in, broken] {
        chatcron.jobs().create(draft, "the gateway").await?;
    }
    Ok(())
}

/// Turns that the gateway runs itself: it holds the chat's lane, records what it does, and the chat
/// shows nothing else until it has replied.
async fn ada_talks(chatcron: &Chatcron, board: &Board) -> Result<(), Failed> {
    for number in 1..=4 {
        let words = format!("Question {number}?");
        let message = UserMessage::new(&words)
            .with_message_id(board.write("1", &words)?)
            .with_sender("Ada", Some("1"));
        let mut turn = chatcron.sessions().begin_turn("ada", message).await?;
        let call = ToolCall {
            id: format!("call-{number}"),
            name: "look_up".to_owned(),
            input: json!({ "question": number }),
        };
        turn.record_call(&call);
        tokio::time::sleep(Duration::from_millis(600)).await;
        turn.record_result(&call.id, &ToolOutput::done("found"));
        let seen = turn.history().len();
        let answer = format!("Answer {number}, after {seen} entries.");
        if number % 2 == 0 {
            // The gateway streams this one into the chat by itself, and says so.
            let id = board.write("1", &answer)?;
            turn.reply_shown(answer, id).await?;
        } else {
            turn.reply(answer).await?;
        }
        message_ops(chatcron, number).await?;
    }
    Ok(())
}

/// A message tool of the gateway's own: from one conversation into another chat.
async fn message_ops(chatcron: &Chatcron, number: u32) -> Result<(), Failed> {
    let key = format!("tool:ada:{number}");
    let words = format!("Ada has asked question {number}.");
    let message = OutboundMessage::to_chat(key, "ops", words, SystemClock.now())
        .as_origin(OwnOrigin::MessageTool);
    chatcron.outbound().send(message).await?;
    Ok(())
}

/// Turns that the configured agent answers.
async fn ops_asks(chatcron: &Chatcron, board: &Board) -> Result<(), Failed> {
    for number in 1..=3 {
        let words = format!("Status {number}?");
        let message = UserMessage::new(&words).with_message_id(board.write("2", &words)?);
        let reply = chatcron.sessions().say("ops", message);
        let reply = tokio::time::timeout(PATIENCE, reply).await??;
        println!("ops was answered: {}", reply.text());
    }
    Ok(())
}

/// A subagent is done. It is asked twice, as after a crash, and announced once.
async fn announce(chatcron: &Chatcron) -> Result<(), Failed> {
    let words = "The research that you asked for is done.";
    let message = OutboundMessage::to_chat("subagent:7", "ada", words, SystemClock.now())
        .as_origin(OwnOrigin::SubagentAnnouncement);
    let first = chatcron.outbound().send(message.clone()).await?;
    let again = chatcron.outbound().send(message).await?;
    assert!(again.was_there && again.message_id == first.message_id);
    Ok(())
}

/// What a gateway's page would show.
async fn tell(mut events: EventReader) {
    while let Some(event) = events.next().await {
        match event.map(|event| event.what) {
            Ok(Happened::RunFinished { job_id, state, .. }) => println!("{job_id}: {state}"),
            Ok(Happened::Alert { job_id, .. }) => println!("{job_id}: somebody is told"),
            Ok(_) => {}
            Err(missed) => println!("{missed}"),
        }
    }
}

/// Waits until nothing is on its way.
async fn until_quiet(chatcron: &Chatcron) -> Result<(), Failed> {
    let mut quiet = 0;
    for _ in 0..600 {
        let open = chatcron.outbox().list(OutboxScope::Open).await?;
        let waiting: Vec<PartId> = open.iter().map(|part| part.part_id).collect();
        quiet = if waiting.is_empty() { quiet + 1 } else { 0 };
        if quiet == 10 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("something is on its way for ever".into())
}

/// Holds the histories against what the board has shown.
async fn prove(chatcron: &Chatcron, board: &Board) -> Result<ExitCode, Failed> {
    let logs: BTreeMap<String, Vec<ShownLine>> = [("ada", "1"), ("ops", "2")]
        .into_iter()
        .map(|(name, address)| (name.to_owned(), board.lines(address)))
        .collect();
    let alerts = logs["ops"].iter();
    let alerts = alerts.filter(|line| line.text.contains("broken")).count();
    let report = chatcron.transcripts().verify(&logs).await?;
    for finding in &report.findings {
        println!("{:?}: {}", finding.kind, finding.what);
    }
    println!("{} messages agree, {alerts} alert", report.agreed);
    let is_proved = report.holds() && report.agreed > 10 && alerts == 1;
    Ok(if is_proved {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
