//! The calibration of a ladder by games between its rungs. It can go on for days and on several
//! machines: the scale keeps the result of every pair of games.

use super::{Ladder, LadderError, RungMatch};
use crate::{
    Observation, PairingResults, Results, ScheduledGame, TournamentFormat, rate, schedule::pairings,
};

impl Ladder {
    /// The format of a calibration. Games between rungs far apart carry no information, so each
    /// rung plays its neighbours: the nearest tell most about a step, the next about the whole.
    pub const FORMAT: TournamentFormat = TournamentFormat::Neighbours(2);

    /// Number of openings that all pairings of a calibration have played.
    #[must_use]
    pub fn played_openings(&self) -> usize {
        let pairings = pairings(self.rungs.len(), Self::FORMAT);
        pairings.into_iter().map(|pairing| self.played(pairing).len()).min().unwrap_or(0)
    }

    /// Does the ladder know the result of this game of a calibration?
    #[must_use]
    pub fn knows(&self, scheduled: &ScheduledGame) -> bool {
        let (white, black) = (scheduled.white, scheduled.black);
        scheduled.opening < self.played((white.min(black), white.max(black))).len()
    }

    fn played(&self, (first, second): (usize, usize)) -> &str {
        let [first, second] = [first, second].map(|rung| self.rungs[rung].name.as_str());
        let mut matches = self.matches.iter();
        let found = matches.find(|known| known.first == first && known.second == second);
        found.map_or("", |known| known.pairs.as_str())
    }

    /// The ladder with ratings from the games that it [knows](Self::knows) and those of `results`,
    /// the games of [`FORMAT`](Self::FORMAT) after them up to the first missing pair of each
    /// pairing. A rung without a finite rating keeps its old one with the widest interval.
    ///
    /// # Errors
    /// The anchor is not among the rungs.
    pub fn calibrated(mut self, results: &Results) -> Result<Self, LadderError> {
        let anchor = self.anchor_index()?;
        let count = self.rungs.len();
        let all = self.all_results(results);
        let ratings = rate(count, &all, anchor, self.rungs[anchor].elo);
        let games = |pairing: &PairingResults| 2 * pairing.observations.len();
        for (player, (rung, rating)) in self.rungs.iter_mut().zip(ratings).enumerate() {
            let own =
                all.iter().filter(|pairing| [pairing.first, pairing.second].contains(&player));
            rung.games = own.map(games).sum::<usize>() as u32;
            (rung.low, rung.high) = (-1e4, 1e4);
            if let Some(rating) = rating.filter(|rating| rating.error.is_finite()) {
                let (low, high) = rating.interval();
                (rung.elo, rung.low, rung.high) = (rating.elo.round(), low.round(), high.round());
            }
        }
        self.matches = all.iter().map(|games| self.rung_match(games)).collect();
        self.games = all.iter().map(games).sum();
        let games = 2 * self.played_openings();
        self.command = format!("batch-first ladder --calibrate FOLDER --games {games}");
        self.set_steps(&all);
        Ok(self)
    }

    /// What each two rungs have played, first the known games, then those of `results`.
    fn all_results(&self, results: &Results) -> Vec<PairingResults> {
        let format = pairings(self.rungs.len(), Self::FORMAT);
        let observed = |half_points| Observation { games: 2, half_points };
        let mut all = Vec::new();
        for (first, second) in pairings(self.rungs.len(), TournamentFormat::RoundRobin) {
            let digits = self.played((first, second)).chars().filter_map(|digit| digit.to_digit(5));
            let mut observations: Vec<Observation> =
                digits.map(|digit| observed(digit as u8)).collect();
            if let Some(index) = format.iter().position(|&pairing| pairing == (first, second)) {
                let pairs = (observations.len()..)
                    .map_while(|round| results.pair_of(first, round * format.len() + index));
                observations.extend(pairs.map(observed));
            }
            all.push(PairingResults { first, second, observations });
        }
        all.retain(|games| !games.observations.is_empty());
        all
    }

    fn rung_match(&self, games: &PairingResults) -> RungMatch {
        let digit = |pair: &Observation| char::from(b'0' + pair.half_points);
        RungMatch {
            first: self.rungs[games.first].name.clone(),
            second: self.rungs[games.second].name.clone(),
            pairs: games.observations.iter().map(digit).collect(),
        }
    }

    /// Sets what each rung is above the one before: its rating with that one as the anchor.
    fn set_steps(&mut self, all: &[PairingResults]) {
        for rung in 0..self.rungs.len() {
            let below = rung.checked_sub(1);
            let step = below.and_then(|below| rate(self.rungs.len(), all, below, 0.0)[rung]);
            self.rungs[rung].step = step
                .filter(|step| step.error.is_finite())
                .map(|step| [step.elo.round(), (step.interval().1 - step.elo).round()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GameRecord, ladder::Rung, schedule::schedule, score_of_elo};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const TRUTH: [f64; 5] = [950.0, 1100.0, 1250.0, 1400.0, 1550.0];

    fn ladder() -> Ladder {
        let rung = |elo: f64| Rung {
            name: format!("{elo}"),
            options: Vec::new(),
            nodes: 1,
            elo: 1400.0,
            low: 0.0,
            high: 0.0,
            step: None,
            games: 0,
        };
        Ladder {
            engine: String::new(),
            anchor: "1400".to_owned(),
            command: String::new(),
            games: 0,
            rungs: TRUTH.map(rung).to_vec(),
            matches: Vec::new(),
        }
    }

    /// A simulated game, the same whenever it is played.
    fn record(scheduled: ScheduledGame) -> GameRecord {
        let mut random = ChaCha8Rng::seed_from_u64(scheduled.number as u64);
        let gap = TRUTH[scheduled.white] - TRUTH[scheduled.black];
        let won = u8::from(random.random::<f64>() < score_of_elo(gap));
        GameRecord {
            number: scheduled.number,
            white: scheduled.white,
            black: scheduled.black,
            // As in a match with 50 openings.
            opening: scheduled.opening % 50,
            white_half_points: 2 * won,
            ending: String::new(),
            fault: None,
            plies: 0,
            seconds: 0.0,
            pgn: String::new(),
        }
    }

    fn calibrated(ladder: Ladder, games: usize) -> Ladder {
        // A journal may have games that the ladder knows, and one half of a pair.
        let mut results = Results::default();
        for scheduled in schedule(&pairings(TRUTH.len(), Ladder::FORMAT), games + 1) {
            if scheduled.opening < games / 2 || scheduled.number == 7 * games {
                results.add(record(scheduled));
            }
        }
        ladder.calibrated(&results).unwrap()
    }

    /// Steps between neighbours are found to within their intervals, which are narrower than those
    /// of ratings far from the anchor.
    #[test]
    fn a_calibration_finds_the_steps() {
        let mut ladder = ladder();
        ladder.rungs[0].step = Some([55.0, 75.0]); // Above a rung that is gone.
        let ladder = calibrated(ladder, 400);
        assert_eq!(ladder.rungs[0].step, None);
        for rung in &ladder.rungs[1..] {
            let [step, error] = rung.step.unwrap();
            assert!((step - 150.0).abs() < 1.5 * error && error < 60.0, "{rung:?}");
        }
        let weakest = &ladder.rungs[0];
        assert!((weakest.high - weakest.low) / 2.0 > ladder.rungs[1].step.unwrap()[1]);
    }

    /// A scale that has some of the games comes to what all games at once come to.
    #[test]
    fn a_calibration_goes_on() {
        let half = calibrated(ladder(), 120);
        assert_eq!((half.played_openings(), half.games), (60, 7 * 120));
        let read = Ladder::from_json(&serde_json::to_string(&half).unwrap()).unwrap();
        assert_eq!(read, half);
        assert_eq!(calibrated(read, 300), calibrated(ladder(), 300));
    }

    /// Games of the other rungs count when a rung is added, and only its own are missing.
    #[test]
    fn a_rung_is_added() {
        let mut known = calibrated(ladder(), 120);
        let added = Rung { name: "new".to_owned(), ..known.rungs[4].clone() };
        known.rungs.push(added);
        let missing: Vec<_> = schedule(&pairings(6, Ladder::FORMAT), 120)
            .into_iter()
            .filter(|game| !known.knows(game))
            .collect();
        assert_eq!((known.played_openings(), missing.len()), (0, 2 * 120));
        assert!(missing.iter().all(|game| game.white == 5 || game.black == 5));
        let games = known.games;
        let again = known.calibrated(&Results::default()).unwrap();
        assert_eq!(again.games, games);
    }

    #[test]
    fn unreadable_games_are_refused() {
        for (place, first, pairs) in [(0, "1100", "0127"), (0, "nobody", "0123"), (6, "1550", "0")]
        {
            let mut known = calibrated(ladder(), 20);
            known.matches[place].first = first.to_owned();
            known.matches[place].pairs = pairs.to_owned();
            let error = Ladder::from_json(&serde_json::to_string(&known).unwrap()).unwrap_err();
            assert!(error.to_string().contains(first), "{error}");
        }
    }
}
