//! Takes away what an author who vanishes left beside events (DEL-8).

use grasp_core::PublicKey;
use grasp_core::deletion::Remains;
use grasp_store::CommitError;

use super::super::Service;

impl Service {
    /// Uploads that wait for an event of `author`, and archives that nobody else may miss.
    pub(super) async fn remove_remains(&self, author: &PublicKey) -> Result<(), CommitError> {
        let (service, of) = (self.clone(), *author);
        let remains = self
            .blocking(move || service.store.snapshot()?.view().remains_of(&of))
            .await?;
        for part in remains.parts() {
            self.remove_part(part).await?;
        }
        Ok(())
    }

    async fn remove_part(&self, part: Remains) -> Result<(), CommitError> {
        let committed = self
            .store
            .commit(move |view| {
                let unwanted = view.still_unwanted(&part)?;
                Ok((unwanted.removal(), unwanted.archives))
            })
            .await?;
        let archives = committed.value.clone();
        self.finish(committed, None).await;
        let service = self.clone();
        // Copies that a crash leaves here go with the clean-up that follows a start.
        self.blocking(move || {
            for (repository, since) in archives {
                service.discard_archive(&repository, since);
            }
        })
        .await;
        Ok(())
    }
}
