//! ConvChess (2015): a move is chosen without a search. The chance of a move is the chance of its
//! origin square times the chance of its target square for the piece that moves; squares without a
//! legal move count as 0.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use board::{Game, Move, Position, Role, SplitMix64};
use eval::{
    Batch, EvalError,
    cpu::{CpuLogits, CpuOptions},
};
use nets::{HeadKind, HeadOutput, MovePlaces, MoveScores, Network, Squares, policy_index};

use crate::{
    Bound, Control, Limits, Outcome, Search, SearchInfo, Settings,
    score::{from_evaluation, to_score, wdl},
};

/// Chooses moves by chance: with the seven networks of ConvChess, or with one policy over all
/// moves.
#[derive(Debug)]
pub struct ConvChess {
    network: Arc<Network>,
    logits: CpuLogits,
    batch: Batch,
    /// 0: always the likeliest move; 1: each move with its chance.
    temperature: f64,
    /// Share of the chances, the likeliest moves first, from which a move is drawn.
    top_p: f64,
    random: SplitMix64,
}

impl ConvChess {
    /// A chooser with a random seed that differs from one program run to the next.
    ///
    /// # Errors
    /// The network has neither all seven selectors nor a policy, or cannot be run here.
    pub fn new(
        network: Arc<Network>,
        options: CpuOptions,
        settings: &Settings,
    ) -> Result<Self, EvalError> {
        Self::check(&network)?;
        let logits = CpuLogits::new(Arc::clone(&network), options)?;
        let mut chooser = Self {
            network,
            logits,
            batch: Batch::default(),
            temperature: 0.0,
            top_p: 1.0,
            random: SplitMix64::new(RandomState::new().build_hasher().finish()),
        };
        chooser.configure(settings);
        Ok(chooser)
    }

    /// Checks that the network has the heads that choosing a move needs.
    ///
    /// # Errors
    /// The network has neither all seven selectors nor a policy.
    pub fn check(network: &Network) -> Result<(), EvalError> {
        let has = |kind: &HeadKind| network.description.head(*kind).is_some();
        let refuse =
            |reason: String| Err(EvalError::Unsupported { network: network.name.clone(), reason });
        if has(&HeadKind::Moves) {
            return match network.calibration.move_scores {
                MoveScores::Policy => Ok(()),
                MoveScores::Centipawns => refuse(
                    "its move head gives values of moves, and choosing without a search needs chances"
                        .to_owned(),
                ),
            };
        }
        let missing: Vec<&str> =
            HeadKind::SELECTORS.iter().filter(|kind| !has(kind)).map(|kind| kind.name()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let s = if missing.len() > 1 { "s" } else { "" };
        refuse(format!("it lacks the selector{s} {}", missing.join(", ")))
    }

    /// Every legal move with its chance at temperature 1, the likeliest first; chances add up to 1.
    /// The seven networks say nothing of the piece that a pawn becomes: there underpromotions have
    /// chance 0.
    ///
    /// # Errors
    /// The device failed.
    pub fn distribution(&mut self, position: &Position) -> Result<Vec<(Move, f32)>, EvalError> {
        let moves = position.legal_moves();
        if moves.is_empty() {
            return Ok(Vec::new());
        }
        let chances = match self.network.description.head(HeadKind::Moves) {
            Some(_) => self.policy(position, &moves)?,
            None => self.composed(position, &moves)?,
        };
        let sum: f64 = chances.iter().sum();
        // All legal moves may have chance 0: then they are equally likely.
        let share = |chance: f64| if sum > 0.0 { chance / sum } else { 1.0 / moves.len() as f64 };
        let mut all: Vec<(Move, f32)> =
            moves.iter().zip(&chances).map(|(&mv, &chance)| (mv, share(chance) as f32)).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        Ok(all)
    }

    fn ask(&mut self, position: &Position, head: HeadKind) -> Result<Vec<f32>, EvalError> {
        self.batch.clear();
        self.batch.push(position, true, &[]);
        self.logits.logits_of(&self.batch, head)
    }

    /// Softmax over the legal moves' logits.
    fn policy(&mut self, position: &Position, moves: &[Move]) -> Result<Vec<f64>, EvalError> {
        let logits = self.ask(position, HeadKind::Moves)?;
        let output = self
            .network
            .description
            .head(HeadKind::Moves)
            .map_or(HeadOutput::Plain, |head| head.output);
        let (map, squares) = (&self.network.calibration.moves, Squares::of(position));
        let places = MovePlaces::new(output, self.network.description.encoding, &squares);
        let of = |mv: &Move| {
            let logit = logits[places.of(policy_index(*mv, position.turn()))];
            // The chances of Leela's policies are those of its logits; a search softens them.
            if output == HeadOutput::Plain { map.apply(logit) } else { logit }
        };
        Ok(softmax(&moves.iter().map(of).collect::<Vec<_>>()))
    }

    /// Chance of the origin square times chance of the target square.
    fn composed(&mut self, position: &Position, moves: &[Move]) -> Result<Vec<f64>, EvalError> {
        let squares = Squares::of(position);
        let origins = softmax(&self.ask(position, HeadKind::From)?);
        let mut targets: [Option<Vec<f64>>; 6] = Default::default();
        let mut chances = Vec::with_capacity(moves.len());
        for &mv in moves {
            let head = HeadKind::to(mv.role());
            let index = policy_index(mv, position.turn());
            let place = Role::ALL.iter().position(|&role| role == mv.role()).unwrap_or_default();
            let known = match &mut targets[place] {
                Some(known) => known,
                none => none.insert(softmax(&self.ask(position, head)?)),
            };
            let from = HeadKind::From.target(&squares, index).map(usize::from);
            let to = head.target(&squares, index).map(usize::from);
            let is_under = matches!(mv.promotion(), Some(Role::Knight | Role::Bishop | Role::Rook));
            let chance = from.zip(to).filter(|_| !is_under);
            chances.push(chance.map_or(0.0, |(from, to)| origins[from] * known[to]));
        }
        Ok(chances)
    }

    /// Draws the move to play among those that the limits allow.
    fn choose(&mut self, all: &[(Move, f32)], limits: &Limits) -> Option<Move> {
        let allowed: Vec<(Move, f32)> =
            all.iter().copied().filter(|&(mv, _)| limits.allows(mv)).collect();
        let &(first, highest) = allowed.first()?;
        if self.temperature <= 0.0 || highest <= 0.0 {
            return Some(first);
        }
        // Chances relative to the likeliest keep their precision at small temperatures.
        let (temperature, random) = (self.temperature, self.random_unit());
        let weight = |chance: f32| f64::from(chance / highest).powf(1.0 / temperature);
        let most = self.top_p * allowed.iter().map(|&(_, chance)| weight(chance)).sum::<f64>();
        let (mut sum, mut count) = (0.0, 0);
        while sum < most && count < allowed.len() {
            sum += weight(allowed[count].1);
            count += 1;
        }
        let mut left = random * sum;
        let chosen = allowed[..count].iter().find(|&&(_, chance)| {
            left -= weight(chance);
            left < 0.0
        });
        Some(chosen.map_or(first, |&(mv, _)| mv))
    }

    /// A random number from 0 to below 1, with 53 random bits.
    fn random_unit(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut chances: Vec<f64> =
        logits.iter().map(|&logit| f64::from(logit - highest).exp()).collect();
    let sum: f64 = chances.iter().sum();
    chances.iter_mut().for_each(|chance| *chance /= sum);
    chances
}

impl ConvChess {
    /// The game's position, which remembers those before it if the network sees them.
    fn position(&self, game: &Game) -> Position {
        if self.network.description.encoding.has_history() {
            game.remembering().position().clone()
        } else {
            game.position().clone()
        }
    }

    /// What the network says of the position itself, if it has a value head, as the score of the
    /// chosen move.
    fn line(&mut self, position: &Position, best: Move) -> Result<Option<SearchInfo>, EvalError> {
        let Some(head) = self.network.description.head(HeadKind::Value) else { return Ok(None) };
        let output = head.output;
        let logits = self.ask(position, HeadKind::Value)?;
        let calibration = &self.network.calibration;
        let turned =
            self.network.description.encoding.is_whites_view() && position.turn().is_black();
        let value = calibration.value.apply(output.value_of(&logits));
        let value = from_evaluation(if turned { -value } else { value });
        Ok(Some(SearchInfo {
            depth: 1,
            seldepth: 1,
            multipv: 1,
            score: to_score(value),
            bound: Bound::Exact,
            wdl: wdl(calibration, value),
            moves_left: None,
            nodes: 1,
            elapsed: Duration::ZERO,
            hashfull: 0,
            pv: vec![best],
        }))
    }
}

impl Search for ConvChess {
    /// Evaluates the position once; of the limits only `search_moves` counts.
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        _control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        let started = Instant::now();
        let position = self.position(game);
        let all = self.distribution(&position)?;
        let best = self.choose(&all, limits);
        let line = best.map_or(Ok(None), |best| self.line(&position, best))?;
        let lines: Vec<SearchInfo> = line
            .into_iter()
            .map(|line| SearchInfo { elapsed: started.elapsed(), ..line })
            .collect();
        lines.iter().for_each(report);
        Ok(Outcome { best, nodes: u64::from(limits.nodes != Some(0)), lines, ponder: None })
    }

    fn configure(&mut self, settings: &Settings) {
        self.temperature = f64::from(settings.temperature) / 100.0;
        self.top_p = f64::from(settings.top_p) / 100.0;
    }

    fn clear(&mut self) {}

    fn chances(&mut self, game: &Game) -> Option<Result<Vec<(Move, f32)>, EvalError>> {
        let position = self.position(game);
        Some(self.distribution(&position))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use board::{CastlingMode, to_uci};
    use eval::reference;
    use nets::{Description, Encoding};

    use super::*;

    fn selectors() -> Arc<Network> {
        let choice =
            nets::ConvChess { filters: 6, dense: 8, pools: 0, ..nets::ConvChess::default() };
        let mut network =
            Network::random(Description::convchess(&choice, &HeadKind::SELECTORS), 3).unwrap();
        // Biases differ, so that chances do.
        for (name, tensor) in &mut network.tensors {
            if name.ends_with(".bias") {
                tensor
                    .data
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, value)| *value = (i * 7 % 13) as f32 / 9.0);
            }
        }
        Arc::new(network)
    }

    fn chooser(network: Arc<Network>, temperature: u32) -> ConvChess {
        let settings = Settings { temperature, ..Settings::default() };
        let mut chooser = ConvChess::new(network, CpuOptions::default(), &settings).unwrap();
        chooser.random = SplitMix64::new(5);
        chooser
    }

    fn position(fen: &str) -> Position {
        Position::from_fen(fen, CastlingMode::Standard).unwrap()
    }

    const FENS: [&str; 4] = [
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1",
        "8/P1k5/8/3pP3/8/8/6p1/4K2R w K d6 0 1",
        "8/P1k5/8/3pP3/8/8/6p1/4K2R b K - 0 1",
    ];

    #[test]
    fn the_chance_of_a_move_is_origin_times_target_among_legal_ones() {
        let network = selectors();
        let mut chooser = chooser(Arc::clone(&network), 0);
        for fen in FENS {
            let position = position(fen);
            let outputs =
                reference::run(&network, &Squares::of(&position), position.turn()).unwrap();
            let flip = if position.turn().is_white() { 0 } else { 56 };
            let mut expected: HashMap<String, f64> = HashMap::new();
            for &mv in &position.legal_moves() {
                let from = mv.from().map_or(64, usize::from) ^ flip;
                let to = match mv {
                    Move::Castle { king, rook } => {
                        (usize::from(king) / 8 * 8 + if rook > king { 6 } else { 2 }) ^ flip
                    }
                    _ => usize::from(mv.to()) ^ flip,
                };
                let under =
                    matches!(mv.promotion(), Some(Role::Knight | Role::Bishop | Role::Rook));
                let chance = softmax(&outputs[&HeadKind::From])[from]
                    * softmax(&outputs[&HeadKind::to(mv.role())])[to];
                expected.insert(to_uci(&position, mv), if under { 0.0 } else { chance });
            }
            let sum: f64 = expected.values().sum();
            let all = chooser.distribution(&position).unwrap();
            assert_eq!(all.len(), expected.len());
            assert!((all.iter().map(|(_, chance)| chance).sum::<f32>() - 1.0).abs() < 1e-5);
            assert!(
                all.is_sorted_by(|one, other| one.1 >= other.1) && all[0].1 > all[all.len() - 1].1
            );
            for (mv, chance) in &all {
                let expected = expected[&to_uci(&position, *mv)] / sum;
                // The fastest kernel of this machine may compute with low precision.
                assert!(
                    (f64::from(*chance) - expected).abs() < 0.1 * expected + 1e-3,
                    "{fen} {mv:?} {chance} {expected}"
                );
            }
            let outcome = chooser
                .search(&Game::new(position), &Limits::default(), &Control::default(), &mut |_| {})
                .unwrap();
            assert_eq!((outcome.best, outcome.nodes), (Some(all[0].0), 1));
        }
    }

    #[test]
    fn promotions_are_to_queens_unless_told_otherwise() {
        let position = position(FENS[2]);
        let mut chooser = chooser(selectors(), 0);
        let knight = position
            .legal_moves()
            .into_iter()
            .find(|mv| mv.promotion() == Some(Role::Knight))
            .unwrap();
        let all = chooser.distribution(&position).unwrap();
        let chance = |role| all.iter().find(|(mv, _)| mv.promotion() == Some(role)).unwrap().1;
        assert!(chance(Role::Queen) > 0.0 && chance(Role::Knight) == 0.0);
        let limits = Limits { search_moves: vec![knight], ..Limits::default() };
        let outcome = chooser
            .search(&Game::new(position), &limits, &Control::default(), &mut |_| {})
            .unwrap();
        assert_eq!(outcome.best, Some(knight));
    }

    #[test]
    fn moves_are_drawn_as_often_as_their_chances_say() {
        let position = position(FENS[0]);
        let mut chooser = chooser(selectors(), 100);
        let all = chooser.distribution(&position).unwrap();
        let mut counts: HashMap<String, f32> = HashMap::new();
        const DRAWS: usize = 4000;
        for _ in 0..DRAWS {
            let mv = chooser.choose(&all, &Limits::default()).unwrap();
            *counts.entry(to_uci(&position, mv)).or_default() += 1.0 / DRAWS as f32;
        }
        for (mv, chance) in &all {
            let share = counts.get(&to_uci(&position, *mv)).copied().unwrap_or(0.0);
            assert!((share - chance).abs() < 0.04, "{mv:?} {share} {chance}");
        }
        // At a small temperature the likeliest moves are chosen.
        chooser.temperature = 0.01;
        let second = all.iter().find(|(_, chance)| *chance < all[0].1 * 0.9).unwrap();
        assert!((0..200).all(|_| {
            let mv = chooser.choose(&all, &Limits::default()).unwrap();
            all.iter().position(|(other, _)| *other == mv)
                < all.iter().position(|(other, _)| *other == second.0)
        }));
        // Of the likeliest moves, as many as first make this share of the chances: two.
        assert!(all.len() > 2);
        (chooser.temperature, chooser.top_p) = (1.0, f64::from(all[0].1 + all[1].1 / 2.0));
        let drawn: Vec<Move> =
            (0..2000).map(|_| chooser.choose(&all, &Limits::default()).unwrap()).collect();
        assert!(drawn.iter().all(|&mv| mv == all[0].0 || mv == all[1].0));
        assert!(drawn.contains(&all[0].0) && drawn.contains(&all[1].0));
        let mated = self::position("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1");
        assert!(chooser.distribution(&mated).unwrap().is_empty());
        assert_eq!(chooser.choose(&[], &Limits::default()), None);
    }

    #[test]
    fn a_policy_or_all_selectors_are_needed() {
        let refused = |network: Network| {
            ConvChess::new(Arc::new(network), CpuOptions::default(), &Settings::default())
                .unwrap_err()
                .to_string()
        };
        let mut policy = Network::random(Description::batch_first(&[HeadKind::Moves]), 2).unwrap();
        assert!(refused(policy.clone()).contains("chances"));
        policy.calibration.move_scores = MoveScores::Policy;
        assert_eq!(policy.description.encoding, Encoding::BatchFirst15);
        let mut chooser = chooser(Arc::new(policy), 0);
        for fen in FENS {
            let all = chooser.distribution(&position(fen)).unwrap();
            assert_eq!(all.len(), position(fen).legal_moves().len());
            assert!((all.iter().map(|(_, chance)| chance).sum::<f32>() - 1.0).abs() < 1e-5);
        }
        let kinds: Vec<HeadKind> = HeadKind::SELECTORS
            .into_iter()
            .filter(|kind| !matches!(kind, HeadKind::KnightTo | HeadKind::KingTo))
            .collect();
        let some = Network::random(Description::convchess(&nets::ConvChess::default(), &kinds), 1)
            .unwrap();
        assert!(refused(some).ends_with("it lacks the selectors knight-to, king-to"));
        let value = Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap();
        assert!(refused(value).contains("lacks the selectors from, pawn-to"));
    }
}
