//! The operations of a network as an ONNX graph, built one after the other.

use super::messages::{Attribute, FLOAT, INT64, Node, OnnxTensor};
use crate::Shape;

/// The order of a value's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `[batch, channels, ranks, files]`, as convolutions want it.
    Planes,
    /// `[batch, cells, channels]`, as attention wants it.
    Cells,
    /// `[batch, channels]`, of a single cell.
    Flat,
}

/// The output of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub name: String,
    pub shape: Shape,
    pub layout: Layout,
}

/// A setting of an operation.
pub(super) enum Setting<'a> {
    Float(&'a str, f32),
    Int(&'a str, i64),
    Ints(&'a str, Vec<i64>),
}

impl Setting<'_> {
    fn message(&self) -> Attribute {
        let named = |name: &str, kind| Attribute { name: name.into(), kind, ..Default::default() };
        match self {
            &Self::Float(name, f) => Attribute { f: Some(f), ..named(name, 1) },
            &Self::Int(name, i) => Attribute { i: Some(i), ..named(name, 2) },
            Self::Ints(name, ints) => Attribute { ints: ints.clone(), ..named(name, 7) },
        }
    }
}

/// Operations and their constants.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub nodes: Vec<Node>,
    pub constants: Vec<OnnxTensor>,
}

impl Graph {
    /// Adds an operation; the name of its output, which is `name` if nothing has it yet.
    pub fn add(
        &mut self,
        name: &str,
        operator: &str,
        inputs: &[&str],
        settings: &[Setting<'_>],
    ) -> String {
        let is_taken = self.nodes.iter().any(|node| node.name == name);
        let name = if is_taken { format!("{name}.{}", self.nodes.len()) } else { name.to_owned() };
        self.nodes.push(Node {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![name.clone()],
            name: name.clone(),
            op_type: operator.to_owned(),
            attribute: settings.iter().map(Setting::message).collect(),
        });
        name
    }

    /// Adds a constant of this name unless there is one; its name.
    pub fn constant(&mut self, name: &str, dims: &[usize], data: &[f32]) -> String {
        debug_assert_eq!(dims.iter().product::<usize>(), data.len(), "{name}");
        let raw_data = data.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.add_constant(name, dims, FLOAT, raw_data)
    }

    /// Integers, such as a shape or a range; their name.
    pub fn integers(&mut self, numbers: &[i64]) -> String {
        let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
        let raw_data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let name = format!("integers.{}", words.join("."));
        self.add_constant(&name, &[numbers.len()], INT64, raw_data)
    }

    fn add_constant(
        &mut self,
        name: &str,
        dims: &[usize],
        data_type: i32,
        raw_data: Vec<u8>,
    ) -> String {
        if !self.constants.iter().any(|constant| constant.name == name) {
            let dims = dims.iter().map(|&length| length as i64).collect();
            let name = name.to_owned();
            self.constants.push(OnnxTensor { dims, data_type, name, raw_data });
        }
        name.to_owned()
    }

    /// Gives a value other dimensions; 0 keeps the one at its place.
    pub fn reshape(&mut self, value: &str, dims: &[i64]) -> String {
        let dims = self.integers(dims);
        self.add(&format!("{value}.reshape"), "Reshape", &[value, &dims], &[])
    }

    pub fn transpose(&mut self, value: &str, order: &[i64]) -> String {
        let order = Setting::Ints("perm", order.to_vec());
        self.add(&format!("{value}.transpose"), "Transpose", &[value], &[order])
    }

    /// The part of a value from one index of an axis to before another.
    pub fn slice(&mut self, value: &str, axis: i64, [start, end]: [usize; 2]) -> String {
        let [start, end, axis] = [start as i64, end as i64, axis].map(|at| self.integers(&[at]));
        self.add(&format!("{value}.slice"), "Slice", &[value, &start, &end, &axis], &[])
    }

    /// The value in another layout. A board of several cells has no [flat](Layout::Flat) one.
    pub fn in_layout(&mut self, value: &Value, layout: Layout) -> Value {
        let Shape { cells, channels } = value.shape;
        let (channels, side) = (channels as i64, value.shape.side() as i64);
        let name = match (value.layout, layout) {
            (one, other) if one == other => value.name.clone(),
            (Layout::Planes, Layout::Cells) => {
                let rows = self.reshape(&value.name, &[0, channels, cells as i64]);
                self.transpose(&rows, &[0, 2, 1])
            }
            (Layout::Cells, Layout::Planes) => {
                let rows = self.transpose(&value.name, &[0, 2, 1]);
                self.reshape(&rows, &[0, channels, side, side])
            }
            (_, Layout::Planes) => self.reshape(&value.name, &[0, channels, 1, 1]),
            (_, Layout::Cells) => self.reshape(&value.name, &[0, 1, channels]),
            (_, Layout::Flat) => self.flatten(&value.name),
        };
        Value { name, shape: value.shape, layout }
    }

    /// All numbers of a position in sequence, in the order of the value's layout.
    pub fn flatten(&mut self, value: &str) -> String {
        self.add(&format!("{value}.flatten"), "Flatten", &[value], &[])
    }
}
