//! Keeps webhooks away from private networks and from this machine.
//!
//! The check is made on the addresses that are connected to, after the look-up, so a public name
//! that resolves to a private address does not pass.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// An address that is not a public one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the host has only private, local or reserved addresses; `allow_private = true` lets them be used"
)]
pub(crate) struct ForbiddenAddress;

/// Looks names up, and gives only public addresses.
#[derive(Debug)]
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|at| is_public(at.ip())).collect();
            if public.is_empty() {
                return Err(ForbiddenAddress.into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

/// Checks a host that is written as an address; such a host is never looked up.
pub(crate) fn check_literal(url: &Url) -> Result<(), ForbiddenAddress> {
    let public = match url.host() {
        Some(Host::Ipv4(ip)) => is_public(ip.into()),
        Some(Host::Ipv6(ip)) => is_public(ip.into()),
        Some(Host::Domain(_)) | None => true,
    };
    if public {
        Ok(())
    } else {
        Err(ForbiddenAddress)
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let reserved = match ip.octets() {
        // This network, private, this machine, multicast, reserved and broadcast.
        [0 | 10 | 127 | 224..=255, ..] => true,
        // Carrier-grade NAT.
        [100, 64..=127, ..] => true,
        // Link-local, where clouds keep their metadata.
        [169, 254, ..] => true,
        [172, 16..=31, ..] | [192, 168, ..] => true,
        // Protocol assignments, documentation, 6to4 relays, benchmarks.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18..=19, ..] => true,
        [198, 51, 100, _] | [203, 0, 113, _] => true,
        _ => false,
    };
    !reserved
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    // The forms that carry an IPv4 address are as public as that is.
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let inner = |high: u16, low: u16| {
        let [one, two] = high.to_be_bytes();
        let [three, four] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(one, two, three, four))
    };
    match [a, b, c, d, e, f] {
        // Mapped, and translated (NAT64).
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => inner(g, h),
        // 6to4.
        [0x2002, ..] => inner(b, c),
        // Teredo, and the rest of the protocol assignments; documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Only 2000::/3 is given out to the public; the rest is local, multicast or reserved.
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_pass() {
        for public in [
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.32.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12:3456::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[test]
    fn an_address_in_the_url_is_checked_in_every_spelling() {
        for private in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1:8080/",
            "http://[::1]/",
            "http://[::ffff:a00:1]/",
            "http://0/",
        ] {
            assert!(
                check_literal(&Url::parse(private).unwrap()).is_err(),
                "{private}"
            );
        }
        for other in [
            "http://8.8.8.8/",
            "https://example.org/",
            "http://[2606:4700::1]/",
        ] {
            assert!(
                check_literal(&Url::parse(other).unwrap()).is_ok(),
                "{other}"
            );
        }
    }
}
