//! Linear equations with dense matrices, as large as the number of players of a match.

/// A matrix by rows.
pub(crate) type Matrix = Vec<Vec<f64>>;

/// Solves `matrix * x = right`; `None` where the matrix is singular.
pub(crate) fn solve(matrix: &Matrix, right: &[f64]) -> Option<Vec<f64>> {
    let columns: Matrix = right.iter().map(|&value| vec![value]).collect();
    Some(eliminate(matrix, &columns)?.into_iter().map(|row| row[0]).collect())
}

/// The inverse of a matrix; `None` if it is singular.
pub(crate) fn inverse(matrix: &Matrix) -> Option<Matrix> {
    let size = matrix.len();
    let observation: Matrix =
        (0..size).map(|row| (0..size).map(|at| f64::from(u8::from(at == row))).collect()).collect();
    eliminate(matrix, &observation)
}

/// Solves `matrix * x = right` for all columns of `right` by Gaussian elimination with partial
/// pivoting.
fn eliminate(matrix: &Matrix, right: &Matrix) -> Option<Matrix> {
    let size = matrix.len();
    let mut rows: Matrix =
        matrix.iter().zip(right).map(|(row, right)| [&row[..], right].concat()).collect();
    for pivot in 0..size {
        let best =
            (pivot..size).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))?;
        rows.swap(pivot, best);
        if rows[pivot][pivot].abs() < 1e-18 {
            return None;
        }
        let above = rows[pivot].clone();
        for row in &mut rows[pivot + 1..] {
            let factor = row[pivot] / above[pivot];
            for (value, above) in row.iter_mut().zip(&above).skip(pivot) {
                *value -= factor * above;
            }
        }
    }
    let mut solution: Matrix = rows.iter().map(|row| row[size..].to_vec()).collect();
    for index in (0..size).rev() {
        let (above, below) = solution.split_at_mut(index + 1);
        let own = &mut above[index];
        for (later, known) in (index + 1..size).zip(below) {
            let factor = rows[index][later];
            own.iter_mut().zip(known).for_each(|(own, known)| *own -= factor * *known);
        }
        own.iter_mut().for_each(|own| *own /= rows[index][index]);
    }
    Some(solution)
}
