//! Messages on their way, and a person's word about those in doubt.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    ids::PartId,
    outbound::posting_note,
    store::{OutboxRow, OutboxScope, Resolution, StoreError},
    view::Part,
};

use super::{
    Api,
    extract::{Json, Named, Query},
    jobs::Nothing,
    page,
    problem::{Kind, Problem},
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(resolve))
        .routes(routes!(retry))
        .routes(routes!(cancel))
}

/// Which parts are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Those that are done with too; then the newest come first.
    all: Option<bool>,
    /// How many items, 50 where nothing is said.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Parts of messages.
#[derive(Serialize, ToSchema)]
struct PartPage {
    parts: Vec<Part>,
    /// The `cursor` of the next page; null where there is none.
    next: Option<String>,
}

/// List the messages that need something: not sent yet, failed, or in doubt. A message is sent in
/// parts, as its chat takes them.
#[utoipa::path(get, path = "/v1/outbox", tag = "outbox", params(Which),
    responses((status = 200, description = "Parts of messages", body = PartPage)))]
async fn list(
    State(api): State<Api>,
    Query(which): Query<Which>,
) -> Result<axum::Json<PartPage>, Problem> {
    let size = page::size(which.limit)?;
    let place = match &which.cursor {
        Some(cursor) => {
            let [part] = page::numbers(cursor)?;
            Some(PartId(part))
        }
        None => None,
    };
    // One more tells whether there are more.
    let most = usize::try_from(size).unwrap_or(usize::MAX) + 1;
    let scope = if which.all == Some(true) {
        OutboxScope::AllBefore(place.unwrap_or(PartId(i64::MAX)), most)
    } else {
        OutboxScope::OpenAfter(place.unwrap_or(PartId(i64::MIN)), most)
    };
    let (rows, more) = page::cut(api.store.outbox(scope).await?, size);
    Ok(axum::Json(PartPage {
        next: rows
            .last()
            .filter(|_| more)
            .map(|row| row.part_id.to_string()),
        parts: rows.iter().map(Part::from).collect(),
    }))
}

async fn part(api: &Api, named: &Named) -> Result<OutboxRow, Problem> {
    let part = PartId(named.number(Kind::UnknownPart, "part")?);
    let rows = api.store.outbox(OutboxScope::One(part)).await?;
    let found = rows.into_iter().next();
    found.ok_or_else(|| StoreError::NoSuchPart { part }.into())
}

/// Show everything about a part.
#[utoipa::path(get, path = "/v1/outbox/{part}", tag = "outbox",
    params(("part" = i64, Path, description = "The part's id")),
    responses(
        (status = 200, description = "The part", body = Part),
        (status = 404, description = "There is no such part"),
    ))]
async fn show(State(api): State<Api>, named: Named) -> Result<axum::Json<Part>, Problem> {
    Ok(axum::Json(Part::from(&part(&api, &named).await?)))
}

/// Whether the chat showed a part in doubt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Word {
    shown: bool,
    /// With `shown`: the channel's id of the message, if it is known.
    message_id: Option<String>,
}

/// Say whether the chat showed a part in doubt. One that was shown joins the chat's transcript; one
/// that was not counts as failed.
#[utoipa::path(post, path = "/v1/outbox/{part}/resolve", tag = "outbox", request_body = Word,
    params(("part" = i64, Path, description = "The part's id")),
    responses(
        (status = 200, description = "The part as it is now", body = Part),
        (status = 404, description = "There is no such part"),
        (status = 409, description = "The part is not in doubt, or is being sent"),
        (status = 422, description = "A part that was not shown has no message id, and an id has 1 to 256 bytes"),
    ))]
async fn resolve(
    State(api): State<Api>,
    named: Named,
    Json(word): Json<Word>,
) -> Result<axum::Json<Part>, Problem> {
    let now = api.now();
    let row = part(&api, &named).await?;
    let resolution = match (word.shown, word.message_id) {
        (true, message_id) => Resolution::Shown {
            message_id,
            posting_note: row.posted_by.as_ref().map(|job| posting_note(job, now)),
        },
        (false, None) => Resolution::NotShown,
        (false, Some(_)) => {
            return Err(Kind::Unprocessable
                .because("`message_id` is given, and `shown` is false")
                .help("a message that was not shown has no id"));
        }
    };
    api.store.resolve_part(row.part_id, resolution, now).await?;
    api.worker.look();
    Ok(axum::Json(Part::from(&part(&api, &named).await?)))
}

/// Send a failed part again, and the rest of its message with it, under its key; or one that waits
/// for its time at once.
#[utoipa::path(post, path = "/v1/outbox/{part}/retry", tag = "outbox", request_body = Nothing,
    params(("part" = i64, Path, description = "The part's id")),
    responses(
        (status = 200, description = "The part as it is now", body = Part),
        (status = 404, description = "There is no such part"),
        (status = 409, description = "The part has not failed"),
    ))]
async fn retry(
    State(api): State<Api>,
    named: Named,
    Json(Nothing {}): Json<Nothing>,
) -> Result<axum::Json<Part>, Problem> {
    let row = part(&api, &named).await?;
    api.store.retry_part(row.part_id, api.now()).await?;
    api.worker.look();
    Ok(axum::Json(Part::from(&part(&api, &named).await?)))
}

/// Cancel a part that was not sent yet, and the rest of its message with it.
#[utoipa::path(post, path = "/v1/outbox/{part}/cancel", tag = "outbox", request_body = Nothing,
    params(("part" = i64, Path, description = "The part's id")),
    responses(
        (status = 200, description = "The part as it is now", body = Part),
        (status = 404, description = "There is no such part"),
        (status = 409, description = "The part is not waiting"),
    ))]
async fn cancel(
    State(api): State<Api>,
    named: Named,
    Json(Nothing {}): Json<Nothing>,
) -> Result<axum::Json<Part>, Problem> {
    let row = part(&api, &named).await?;
    api.store.cancel_part(row.part_id, api.now()).await?;
    api.worker.look();
    Ok(axum::Json(Part::from(&part(&api, &named).await?)))
}
