/// Why a text or a vocabulary is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextError(pub String);

impl TextError {
    pub(crate) fn new(message: impl Into<String>) -> TextError {
        TextError(message.into())
    }
}
