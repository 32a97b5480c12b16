//! Policy and value on an attention body, and the policy of attention on any body.

use super::{Arrays, EncoderForm, List};
use crate::{
    Activation, Layer,
    leela::{
        layers::Builder,
        messages::{Array, Encoder, Weights},
    },
};

/// The arrays of a policy of attention, wherever a file holds them.
struct Policy<'a> {
    embedding: Arrays<'a>,
    encoders: &'a [Encoder],
    headcount: u32,
    query: Arrays<'a>,
    key: Arrays<'a>,
    promotion: &'a Option<Array>,
}

impl<'a> Policy<'a> {
    fn of(weights: &'a Weights) -> Self {
        let Some(heads) = &weights.policy_heads else {
            return Self {
                embedding: [&weights.ip_pol_w, &weights.ip_pol_b],
                encoders: &weights.policy_encoder,
                headcount: weights.policy_headcount.unwrap_or(0),
                query: [&weights.ip2_pol_w, &weights.ip2_pol_b],
                key: [&weights.ip3_pol_w, &weights.ip3_pol_b],
                promotion: &weights.ip4_pol_w,
            };
        };
        let is_shared = heads.ip_pol_w.is_some();
        let shared = if is_shared {
            [&heads.ip_pol_w, &heads.ip_pol_b]
        } else {
            [&weights.ip_pol_w, &weights.ip_pol_b]
        };
        let Some(own) = &heads.vanilla else {
            let nothing = [&None, &None];
            let (query, key) = (nothing, nothing);
            return Self {
                embedding: shared,
                encoders: &[],
                headcount: 0,
                query,
                key,
                promotion: &None,
            };
        };
        let is_own = own.ip_pol_w.is_some();
        Self {
            embedding: if is_own { [&own.ip_pol_w, &own.ip_pol_b] } else { shared },
            encoders: &own.encoder,
            headcount: own.headcount.unwrap_or(0),
            query: [&own.ip2_pol_w, &own.ip2_pol_b],
            key: [&own.ip3_pol_w, &own.ip3_pol_b],
            promotion: &own.ip4_pol_w,
        }
    }
}

impl Builder<'_> {
    /// The layers of a policy of attention on any body.
    pub(in crate::leela) fn attention_policy(
        &mut self,
        weights: &Weights,
        channels: usize,
    ) -> Result<Vec<Layer>, String> {
        let policy = Policy::of(weights);
        let is_attention = self.formats.embedding.is_some();
        let on_body = |own| if is_attention { own } else { Activation::Selu };
        let form = EncoderForm {
            heads: policy.headcount as usize,
            factor: 1.0,
            millionths: 1,
            ffn_activation: on_body(self.formats.ffn_activation),
            scores_activation: self.formats.scores_activation,
        };
        let mut list = List { name: "moves", layers: Vec::new() };
        let activation = on_body(self.formats.activation);
        let channels = self.square_dense(&mut list, policy.embedding, channels, activation, 1.0)?;
        for encoder in policy.encoders {
            if encoder.mha.as_ref().is_some_and(|mha| mha.smolgen.is_some()) {
                return Err("its policy has attention with scores of the board".into());
            }
            self.encoder(&mut list, encoder, channels, form)?;
        }
        let name = list.next_name();
        self.square_tensors(&format!("{name}.query"), policy.query, channels, 1.0)?;
        let width = self.square_tensors(&format!("{name}.key"), policy.key, channels, 1.0)?;
        let promotion = self.array(policy.promotion)?;
        self.insert(format!("{name}.promotion.weight"), vec![4, width], promotion)?;
        list.layers.push(Layer::MoveAttention { width });
        Ok(list.layers)
    }

    pub(in crate::leela) fn attention_value(
        &mut self,
        weights: &Weights,
        channels: usize,
    ) -> Result<Vec<Layer>, String> {
        let own = weights.value_heads.as_ref().and_then(|heads| heads.winner.as_ref());
        let (each, dense) = own.map_or(
            (
                [&weights.ip_val_w, &weights.ip_val_b],
                [
                    [&weights.ip1_val_w, &weights.ip1_val_b],
                    [&weights.ip2_val_w, &weights.ip2_val_b],
                ],
            ),
            |own| {
                let dense = [[&own.ip1_val_w, &own.ip1_val_b], [&own.ip2_val_w, &own.ip2_val_b]];
                ([&own.ip_val_w, &own.ip_val_b], dense)
            },
        );
        self.attention_dense_head("value", each, channels, dense, Activation::Identity)
    }

    /// A dense layer of each square and two of the board, the last with an activation of its own.
    pub(in crate::leela) fn attention_dense_head(
        &mut self,
        head: &str,
        each: Arrays<'_>,
        channels: usize,
        [first, second]: [Arrays<'_>; 2],
        last: Activation,
    ) -> Result<Vec<Layer>, String> {
        let activation = self.formats.activation;
        let mut list = List { name: head, layers: Vec::new() };
        let inner = self.square_dense(&mut list, each, channels, activation, 1.0)?;
        let width = self.board_tensors(&list.next_name(), first, inner)?;
        list.layers.push(Layer::Dense { channels: width, norm: false, activation });
        let (second, _) = self.dense(&list.next_name(), second, width, last)?;
        list.layers.push(second);
        Ok(list.layers)
    }
}
