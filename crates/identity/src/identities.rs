//! What a server knows of its users beyond their names.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use crate::access::Access;
use crate::audit::Audit;
use crate::nodes::NodeAdmissions;
use crate::secrets::Secrets;
use crate::sign_in::SignIns;
use crate::tls::Tls;
use crate::web::{Sessions, Sites, Web};

pub struct Identities {
    /// Tokens and network users.
    pub access: Arc<Access>,
    /// The nodes on other machines.
    pub nodes: Arc<NodeAdmissions>,
    /// Sign-ins at the identity provider, if there is one.
    pub sign_ins: Option<Arc<SignIns>>,
    pub audit: Arc<Audit>,
    /// The secrets of users for their jobs.
    pub secrets: Arc<Secrets>,
    /// The sessions of browsers, on the loopback address and over the network.
    pub sessions: Arc<Sessions>,
    /// The ports of jobs that browsers reach.
    pub sites: Arc<Sites>,
    /// The dashboard, if there is one.
    pub web: OnceLock<Arc<Web>>,
    /// The certificates of the listener on the network, if there is one, and its address.
    pub network: OnceLock<(Arc<Tls>, SocketAddr)>,
}

impl Identities {
    #[must_use]
    pub fn new(
        access: Arc<Access>,
        nodes: Arc<NodeAdmissions>,
        sign_ins: Option<Arc<SignIns>>,
        audit: Arc<Audit>,
        secrets: Arc<Secrets>,
    ) -> Self {
        let (sessions, sites) = (Arc::default(), Arc::default());
        let (web, network) = (OnceLock::new(), OnceLock::new());
        Self { access, nodes, sign_ins, audit, secrets, sessions, sites, web, network }
    }
}
