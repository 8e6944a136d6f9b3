//! Signatures of tokens, checked by ring: the crate for tokens leaves this to its user.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature as rs;
use signature::Verifier;

/// Makes ring the implementation for this process.
pub fn install() {
    static ONCE: Once = Once::new();
    // No other code of this program installs one, so it can't fail.
    ONCE.call_once(|| assert!(RING.install_default().is_ok(), "installed once"));
}

static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| {
        Ok(Box::new(RingVerifier {
            algorithm: *algorithm,
            check: check(*algorithm, key)?,
            key: key.clone(),
        }))
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// The algorithm in ring's terms.
enum Check {
    Rsa(&'static rs::RsaParameters),
    Other(&'static dyn rs::VerificationAlgorithm),
}

struct RingVerifier {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKey,
}

/// A key fits one family of algorithms: a token can't choose another one for it.
fn check(algorithm: Algorithm, key: &DecodingKey) -> Result<Check, Error> {
    let (family, check) = match algorithm {
        Algorithm::RS256 => (AlgorithmFamily::Rsa, Check::Rsa(&rs::RSA_PKCS1_2048_8192_SHA256)),
        Algorithm::RS384 => (AlgorithmFamily::Rsa, Check::Rsa(&rs::RSA_PKCS1_2048_8192_SHA384)),
        Algorithm::RS512 => (AlgorithmFamily::Rsa, Check::Rsa(&rs::RSA_PKCS1_2048_8192_SHA512)),
        Algorithm::PS256 => (AlgorithmFamily::Rsa, Check::Rsa(&rs::RSA_PSS_2048_8192_SHA256)),
        Algorithm::PS384 => (AlgorithmFamily::Rsa, Check::Rsa(&rs::RSA_PSS_2048_8192_SHA384)),
        Algorithm::PS512 => (AlgorithmFamily::Rsa, Check::Rsa(&rs::RSA_PSS_2048_8192_SHA512)),
        Algorithm::ES256 => (AlgorithmFamily::Ec, Check::Other(&rs::ECDSA_P256_SHA256_FIXED)),
        Algorithm::ES384 => (AlgorithmFamily::Ec, Check::Other(&rs::ECDSA_P384_SHA384_FIXED)),
        Algorithm::EdDSA => (AlgorithmFamily::Ed, Check::Other(&rs::ED25519)),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    match key.family() == family {
        true => Ok(check),
        false => Err(ErrorKind::InvalidKeyFormat.into()),
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match (&self.check, self.key.kind()) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                rs::RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Check::Other(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                rs::UnparsedPublicKey::new(*algorithm, key).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
