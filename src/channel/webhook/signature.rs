//! The signature of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`.

use std::sync::Arc;

use data_encoding::{BASE64, BASE64_NOPAD};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use sha2::Sha256;

use crate::http_client::HttpSetupError;

/// The bytes that sign.
#[derive(Debug, Clone)]
pub(super) struct SigningKey(Arc<SecretSlice<u8>>);

impl SigningKey {
    /// `whsec_` and base64, as most receivers hand it out, or any other text as its own bytes.
    pub(super) fn new(secret: &SecretString) -> Result<Self, HttpSetupError> {
        let text = secret.expose_secret();
        let bytes = match text.strip_prefix("whsec_") {
            None => text.as_bytes().to_vec(),
            Some(base64) => BASE64
                .decode(base64.as_bytes())
                .or_else(|_| BASE64_NOPAD.decode(base64.as_bytes()))
                .map_err(|_| HttpSetupError::Credential {
                    what: "the webhook's secret begins with `whsec_`, but the rest is not base64",
                })?,
        };
        if bytes.is_empty() {
            return Err(HttpSetupError::Credential {
                what: "the webhook's secret is empty",
            });
        }
        Ok(Self(Arc::new(SecretSlice::from(bytes))))
    }

    /// The value of the `webhook-signature` header.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        // HMAC takes a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()) else {
            return String::new();
        };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body.as_bytes());
        format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification_signs_as_it_says() {
        let secret = SecretString::from("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signature = SigningKey::new(&secret).unwrap().sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_that_cannot_be_a_key_is_refused_without_being_shown() {
        for bad in ["whsec_***secret", "whsec_", ""] {
            let error = SigningKey::new(&SecretString::from(bad)).unwrap_err();
            assert!(!error.to_string().contains("***"), "{error}");
        }
        let key = SigningKey::new(&SecretString::from("plain words")).unwrap();
        assert!(!format!("{key:?}").contains("plain"));
    }
}
