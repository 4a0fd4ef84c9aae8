//! An answer with something that is held until its end.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// The body of an answer, and what is dropped with it.
pub(super) struct Guarded<G> {
    body: Body,
    #[expect(dead_code, reason = "it is held until it is dropped")]
    guard: G,
}

impl<G> Guarded<G> {
    pub(super) fn new(body: Body, guard: G) -> Self {
        Self { body, guard }
    }
}

impl<G: Unpin> HttpBody for Guarded<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
