//! Input planes of Leela's networks: uploaded as sets of squares with one number each, 1.3 KB a
//! board, and written out on the device.

use burn::tensor::{DType, Device, Int, Tensor as Array, TensorData};
use nets::{LEELA_PLANES, LeelaPlanes};

/// The planes of some boards before they are on the device.
pub(crate) struct PlaneUpload {
    /// `[boards, halves, planes]`: the lower and the upper 32 squares of each plane.
    masks: Vec<u32>,
    /// `[boards, planes]`: the number on the squares where a plane is set.
    values: Vec<f32>,
}

impl PlaneUpload {
    /// So many boards without a plane that is set.
    pub fn new(boards: usize) -> Self {
        let planes = boards * LEELA_PLANES;
        Self { masks: vec![0; 2 * planes], values: vec![0.0; planes] }
    }

    /// Sets the planes of a board.
    pub fn set(&mut self, board: usize, planes: &LeelaPlanes) {
        let first = board * LEELA_PLANES;
        for plane in 0..LEELA_PLANES {
            let mask = planes.mask(plane);
            self.masks[2 * first + plane] = mask as u32;
            self.masks[2 * first + LEELA_PLANES + plane] = (mask >> 32) as u32;
            self.values[first + plane] = planes.value(plane);
        }
    }

    /// Uploads the planes and expands them to `[boards, 8, 8, planes]`.
    pub fn expanded(self, device: &Device, dtype: DType) -> Array<4> {
        let boards = self.values.len() / LEELA_PLANES;
        let on = |data: Vec<u32>, shape| {
            Array::<4, Int>::from_data(TensorData::new(data, shape), (device, DType::U32))
        };
        let masks = on(self.masks, [boards, 2, 1, LEELA_PLANES]);
        let bits = masks.bitwise_right_shift(on((0..32).collect(), [1, 1, 32, 1]));
        let values = TensorData::new(self.values, [boards, 1, 1, LEELA_PLANES]);
        let values = Array::<4>::from_data(values, (device, DType::F32));
        let planes = bits.bitwise_and_scalar(1).float().cast(DType::F32) * values;
        planes.cast(dtype).reshape([boards, 8, 8, LEELA_PLANES])
    }
}
