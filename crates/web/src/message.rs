//! A page's message. A large one is looked at before it is read: what it is, and how many moves its
//! game has, so that no message takes much more memory than its own size.

use axum::extract::ws::Utf8Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};

use crate::{
    AnalysisRequest, ApiError, NewGameRequest, ReviewRequest, TreeRequest,
    analysis::{MAX_NODES, MAX_PGN, compute_in_turn, too_many_moves},
};

/// The largest message, in bytes: a PGN, in which JSON escapes quotes and line ends, and some more.
pub const MAX_MESSAGE: usize = 2 * MAX_PGN + 64 * 1024;
/// The largest message that holds no PGN and no game, in bytes.
const MAX_SMALL_MESSAGE: usize = 64 * 1024;

/// A message from the page.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    NewGame(NewGameRequest),
    Open {
        game: i64,
    },
    Close {},
    Move {
        game: i64,
        ply: usize,
        uci: String,
    },
    TakeBack {
        game: i64,
    },
    Resign {
        game: i64,
    },
    Hint {
        game: i64,
    },
    OfferDraw {
        game: i64,
    },
    Games {},
    Delete {
        game: i64,
    },
    /// Show a position without analysis.
    ShowPosition(AnalysisRequest),
    /// Show a position and analyse it.
    Analyse(AnalysisRequest),
    Stop {},
    /// Read or write a game with variations, or a move as it was typed.
    Tree(TreeRequest),
    /// Analyse a whole game.
    Review(ReviewRequest),
    StopReview {},
}

/// Why a message is not read, with the page's number of the request where it has one.
#[derive(Debug)]
pub struct Refusal {
    pub tag: Option<u32>,
    pub error: ApiError,
}

impl ClientMessage {
    /// The tag of an analysis request. Its error carries the tag, so that the page can ignore the
    /// error of an older request.
    pub fn tag(&self) -> Option<u32> {
        match self {
            Self::ShowPosition(request) | Self::Analyse(request) => Some(request.tag),
            Self::Tree(request) => Some(request.tag()),
            Self::Review(request) => Some(request.tag),
            _ => None,
        }
    }

    /// Reads a message; a large one on a thread of its own, when its turn comes.
    ///
    /// # Errors
    /// It is too large or not understood.
    pub async fn read(text: Utf8Bytes) -> Result<Self, Refusal> {
        if text.len() <= MAX_SMALL_MESSAGE {
            return Self::parse(&text);
        }
        compute_in_turn(move || Ok(check_size(&text).and_then(|()| Self::parse(&text))))
            .await
            .unwrap_or_else(|error| Err(Refusal { tag: None, error }))
    }

    fn parse(text: &str) -> Result<Self, Refusal> {
        serde_json::from_str(text).map_err(|problem| refusal(text, not_understood(&problem)))
    }
}

fn not_understood(problem: &serde_json::Error) -> ApiError {
    let problem = problem.to_string().replace('`', "");
    ApiError(format!("The server does not understand this page: {problem}."))
}

/// A refusal with the message's tag, whatever else is wrong with it.
fn refusal(text: &str, error: ApiError) -> Refusal {
    #[derive(Deserialize)]
    struct Tagged {
        tag: u32,
    }
    let tag = serde_json::from_str(text).ok().map(|Tagged { tag }| tag);
    Refusal { tag, error }
}

/// Checks a large message without keeping any of it.
fn check_size(text: &str) -> Result<(), Refusal> {
    #[derive(Deserialize)]
    struct Outline {
        r#type: String,
        tree: Option<TreeOutline>,
    }
    #[derive(Deserialize)]
    struct TreeOutline {
        nodes: Count,
    }
    let outline: Outline =
        serde_json::from_str(text).map_err(|problem| refusal(text, not_understood(&problem)))?;
    if !matches!(outline.r#type.as_str(), "tree" | "review") {
        let limit = MAX_SMALL_MESSAGE / 1024;
        return Err(refusal(text, ApiError(format!("A message has at most {limit} KiB."))));
    }
    match outline.tree {
        Some(TreeOutline { nodes: Count(nodes) }) if nodes > MAX_NODES + 1 => {
            Err(refusal(text, too_many_moves()))
        }
        _ => Ok(()),
    }
}

/// The length of a list, whatever is in it.
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counter;

        impl<'de> Visitor<'de> for Counter {
            type Value = Count;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a list of moves")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }

        deserializer.deserialize_seq(Counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(text: String) -> (Option<u32>, String) {
        let Refusal { tag, error } = ClientMessage::read(text.into()).await.unwrap_err();
        (tag, error.0)
    }

    #[tokio::test]
    async fn large_messages_are_refused_before_they_are_read() {
        // What is behind the moves that are too many would not fit; it is not looked at.
        let nodes = format!("{}7", "{},".repeat(MAX_NODES + 20_000));
        let tree = format!(r#""tree": {{"start": "", "nodes": [{nodes}]}}"#);
        let text = format!(r#"{{"type": "tree", "what": "complete", {tree}, "tag": 4}}"#);
        let (tag, error) = refused(text).await;
        assert!(tag == Some(4) && error.contains("at most 10000 moves"), "{error}");
        let text =
            format!(r#"{{"type": "analyse", "tag": 5, "moves": [{}7]}}"#, "7,".repeat(40_000));
        let (tag, error) = refused(text).await;
        assert!(tag == Some(5) && error == "A message has at most 64 KiB.", "{error}");
    }

    #[tokio::test]
    async fn the_refusal_of_what_does_not_fit_has_its_tag() {
        for text in [
            r#"{"type": "tree", "what": "complete", "tag": 6, "tree": 5}"#,
            r#"{"type": "tree", "what": "complete", "tree": {"start": "", "nodes": [{"cp": "x"}]}, "tag": 6}"#,
            r#"{"tag": 6, "type": "other"}"#,
        ] {
            let (tag, error) = refused(text.to_owned()).await;
            assert!(tag == Some(6) && error.contains("does not understand"), "{text}: {error}");
        }
        let (tag, _) = refused(r#"{"type": "tree", "tag": "#.to_owned()).await;
        assert_eq!(tag, None);
    }
}
