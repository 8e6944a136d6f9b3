//! Subscriptions to messages about projects and users. The server reads costs and history outside
//! the state machine, which decides whether a message was sent before, and stores that it was.

use gpool_model::budget::{MonthSpending, Payer};
use gpool_model::notify::{News, NotifyOn, NotifyRule};
use gpool_model::payer_news::{BudgetReached, Digest, PayerEvent, PayerNews};
use gpool_model::subscription::Subscription;
use gpool_model::{Caller, Refusal, Reply};

use crate::control::Control;
use crate::control::nodes::admin;
use crate::control::outbox::as_named_by;
use crate::project_tree;

impl Control {
    /// Replaces the addresses of a project or user; without any, the subscription ends. Messages
    /// that were sent before are not sent again to new addresses.
    pub(crate) fn subscribe(
        &mut self,
        caller: &Caller,
        payer: Payer,
        rules: Vec<NotifyRule>,
    ) -> Result<Reply, Refusal> {
        let what = format!("change the notifications of {payer}");
        project_tree::check_payer(self.world.projects(), caller, &payer, what)?;
        if rules.is_empty() {
            self.world.remove_subscription(&payer);
            return Ok(Reply::Done);
        }
        let (rules, owner) = (as_named_by(caller, rules), caller.owner.clone());
        let before = self.world.subscriptions().get(&payer).cloned();
        // The first digest is that of the first week that ends later.
        let since = before.as_ref().filter(|it| it.wants(NotifyOn::Digest));
        let digest_until = since.map_or(self.now, |it| it.digest_until);
        let budget = before.and_then(|it| it.budget);
        self.world.put_subscription(Subscription { payer, rules, owner, budget, digest_until });
        Ok(Reply::Done)
    }

    /// Sends a message about each budget that reached a further step, and notes raised budgets.
    pub(crate) fn report_spending(
        &mut self,
        caller: &Caller,
        all: Vec<MonthSpending>,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "report costs".to_owned())?;
        for spending in all {
            let Some(mut it) = self.world.subscriptions().get(&spending.payer).cloned() else {
                continue;
            };
            let Some((mark, step)) = it.after(&spending) else { continue };
            it.budget = Some(mark);
            if let Some(step) = step {
                let event = PayerEvent::Budget(BudgetReached { step, spending });
                self.tell_payer(&it, NotifyOn::Budget, event);
            }
            self.world.put_subscription(it);
        }
        Ok(Reply::Done)
    }

    /// Sends the digests of weeks that were not reported. A week without use sends nothing.
    pub(crate) fn report_digests(
        &mut self,
        caller: &Caller,
        all: Vec<Digest>,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "report the use of projects and users".to_owned())?;
        for digest in all {
            let Some(mut it) = self.world.subscriptions().get(&digest.payer).cloned() else {
                continue;
            };
            if !it.awaits_digest(digest.to) {
                continue;
            }
            it.digest_until = digest.to;
            if !digest.is_empty() {
                let event = PayerEvent::Digest(Box::new(digest));
                self.tell_payer(&it, NotifyOn::Digest, event);
            }
            self.world.put_subscription(it);
        }
        Ok(Reply::Done)
    }

    fn tell_payer(&mut self, subscription: &Subscription, on: NotifyOn, event: PayerEvent) {
        let Subscription { payer, rules, owner, .. } = subscription;
        let (payer, owner) = (payer.clone(), owner.clone());
        let news = News::from(PayerNews { payer, owner, at: self.now, event });
        self.post_news(rules, |rule| rule.on.contains(&on), &news);
    }
}
