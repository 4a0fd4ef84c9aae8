//! What is refused before it is a request, such as a head that is too long: the server answers that
//! by itself, with a status alone. Here it gets the problem that every other refusal has.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    limits::HEAD_MAX,
    problem::{Kind, MEDIA_TYPE, Problem},
};

/// A connection of which the server's own refusals are explained.
pub(super) struct Explained<S> {
    stream: S,
    /// A refusal with its problem, as far as it is not written yet.
    refusal: Vec<u8>,
}

impl<S> Explained<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            refusal: Vec::new(),
        }
    }
}

/// The refusal with its problem; `None` for every other answer.
fn explained(answer: &[u8]) -> Option<Vec<u8>> {
    let head = answer.strip_suffix(b"\r\n\r\n")?;
    let head = std::str::from_utf8(head).ok()?.to_ascii_lowercase();
    let mut lines = head.lines();
    let status = lines.next()?.strip_prefix("http/1.1 ")?.get(..3)?;
    let problem = problem(status.parse().ok()?)?;
    // Whatever the API answers says what it is, and has a body.
    let is_bare = head.contains("\r\ncontent-length: 0") && !head.contains("\r\ncontent-type:");
    let closes = head.contains("\r\nconnection: close");
    if !is_bare || !closes || head.contains("\r\n\r\n") {
        return None;
    }
    let body = serde_json::to_string(&problem.details()).ok()?;
    let first = std::str::from_utf8(answer).ok()?.lines().next()?;
    let length = body.len();
    let whole = format!(
        "{first}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    Some(whole.into_bytes())
}

fn problem(status: StatusCode) -> Option<Problem> {
    Some(match status {
        StatusCode::BAD_REQUEST => Kind::BadRequest
            .because("this is no HTTP request")
            .help("send HTTP/1.1, without TLS"),
        StatusCode::URI_TOO_LONG => Kind::PathTooLong
            .because("the path with its query is too long")
            .help(format!(
                "the head of a request has at most {HEAD_MAX} bytes"
            )),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Kind::HeadTooLarge
            .because("the head of the request is too large, or has too many fields")
            .help(format!(
                "the head of a request has at most {HEAD_MAX} bytes"
            )),
        _ => return None,
    })
}

impl<S: AsyncWrite + Unpin> Explained<S> {
    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.refusal.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.refusal))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.refusal.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Explained<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Explained<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_refusal(context))?;
        match explained(bytes) {
            Some(refusal) => {
                self.refusal = refusal;
                Poll::Ready(Ok(bytes.len()))
            }
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [whole] = pieces {
            return self.poll_write(context, whole);
        }
        let this = self.get_mut();
        ready!(this.poll_refusal(context))?;
        Pin::new(&mut this.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_without_a_body_is_explained() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                     content-length: 0\r\ndate: Tue, 01 Dec 2026 00:00:00 GMT\r\n\r\n";
        let told = String::from_utf8(explained(bare).unwrap()).unwrap();
        assert!(told.contains("\"code\":\"head-too-large\""), "{told}");
        for other in [
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\
             content-length: 0\r\n\r\n",
            "data: HTTP/1.1 400\r\n\r\n",
            "\r\n\r\n",
            "",
        ] {
            assert_eq!(explained(other.as_bytes()), None, "{other}");
        }
    }
}
