//! Connections that can be reset while a request is being answered.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};

/// Accepts connections whose handlers can reset them.
pub(crate) struct Resettable(pub(crate) TcpListener);

/// What a handler knows of its connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connection(Arc<AtomicBool>);

impl Connection {
    /// Resets the connection at the next byte that is written to it.
    pub(crate) fn reset(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Connected<IncomingStream<'_, Resettable>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Resettable>) -> Self {
        stream.io().connection.clone()
    }
}

impl Listener for Resettable {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.0).await;
        let connection = Connection::default();
        (Stream { stream, connection }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A stream that breaks off when it is told to.
pub(crate) struct Stream {
    stream: TcpStream,
    connection: Connection,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.connection.0.load(Ordering::SeqCst) {
            // Closing a socket that does not linger sends a reset.
            self.stream.set_zero_linger()?;
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
