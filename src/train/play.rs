//! The operation of each instruction.

use crate::commands::Commands;
use crate::ops;
use crate::train::instruction::{AttentionShape, Instruction, Place};
use crate::train::tape::{Function, Gate};
use crate::train::trainer::Trainer;

impl Trainer {
    /// The first row and the rows of each sequence.
    fn sequences(&self, shape: AttentionShape) -> impl Iterator<Item = (usize, usize)> {
        let equal = vec![shape.sequence; shape.sequences];
        let lengths = self.packed.clone().unwrap_or(equal);
        lengths.into_iter().scan(0, |next, length| {
            let start = *next;
            *next += length;
            Some((start, length))
        })
    }

    pub(super) fn record(
        &self,
        commands: &mut Commands,
        instruction: &Instruction,
    ) -> Result<(), crate::Error> {
        let tensor = |place: Place| self.tensor(place);
        match *instruction {
            Instruction::Product {
                shape,
                a,
                transpose_a,
                b,
                transpose_b,
                bias,
                alpha,
                c,
            } => commands.matmul(
                &ops::Matmul::new(
                    tensor(a).oriented(shape.m, shape.k, transpose_a),
                    tensor(b).oriented(shape.k, shape.n, transpose_b),
                    tensor(c).matrix(shape.m, shape.n),
                )
                .with_bias(bias.map(|bias| tensor(bias).vector(shape.n)))
                .with_alpha(alpha),
            ),
            Instruction::Unpack {
                shape,
                weight,
                rows,
                out,
            } => commands.embedding(&ops::Embedding::new(
                tensor(weight).matrix(shape.vocab, shape.width),
                tensor(rows).vector(shape.rows),
                tensor(out).matrix(shape.rows, shape.width),
            )),
            Instruction::LinearBackward {
                shape,
                x,
                weight,
                gradient,
                of_x,
                of_weight,
                of_bias,
            } => commands.linear_backward(
                &ops::LinearBackward::new(
                    tensor(x).matrix(shape.rows, shape.inputs),
                    tensor(weight).matrix(shape.outputs, shape.inputs),
                    tensor(gradient).matrix(shape.rows, shape.outputs),
                )
                .with_x_gradient(of_x.map(|of| tensor(of).matrix(shape.rows, shape.inputs)))
                .with_weight_gradient(
                    of_weight.map(|of| tensor(of).matrix(shape.outputs, shape.inputs)),
                )
                .with_bias_gradient(of_bias.map(|of| tensor(of).vector(shape.outputs))),
            ),
            Instruction::Activation {
                function,
                count,
                x,
                out,
            } => {
                let operands =
                    ops::Activation::new(tensor(x).vector(count), tensor(out).vector(count));
                match function {
                    Function::Relu => commands.relu(&operands),
                    Function::Sigmoid => commands.sigmoid(&operands),
                    Function::Tanh => commands.tanh(&operands),
                }
            }
            Instruction::ActivationBackward {
                function,
                count,
                y,
                gradient,
                out,
            } => {
                let operands = ops::Elementwise::new(
                    tensor(y).vector(count),
                    tensor(gradient).vector(count),
                    tensor(out).vector(count),
                );
                match function {
                    Function::Relu => commands.relu_backward(&operands),
                    Function::Sigmoid => commands.sigmoid_backward(&operands),
                    Function::Tanh => commands.tanh_backward(&operands),
                }
            }
            Instruction::Add { count, a, b, out } => commands.add(&ops::Elementwise::new(
                tensor(a).vector(count),
                tensor(b).vector(count),
                tensor(out).vector(count),
            )),
            Instruction::Copy { count, from, to } => commands.copy(&ops::CopyRows::new(
                tensor(from).matrix(1, count),
                tensor(to).matrix(1, count),
            )),
            Instruction::Mse {
                shape: [rows, width],
                prediction,
                target,
                gradient,
                loss,
            } => commands.mse(
                &ops::Mse::new(
                    tensor(prediction).matrix(rows, width),
                    tensor(target).matrix(rows, width),
                    tensor(gradient).matrix(rows, width),
                    tensor(loss).vector(rows),
                )
                .with_scale(self.loss_factor() / (rows as f32 * width as f32)),
            ),
            Instruction::CrossEntropy {
                shape: [rows, width],
                logits,
                labels,
                gradient,
                loss,
            } => commands.cross_entropy(
                &ops::CrossEntropy::new(
                    tensor(logits).matrix(rows, width),
                    tensor(labels).vector(rows),
                    tensor(gradient).matrix(rows, width),
                    tensor(loss).vector(rows),
                )
                .with_scale(self.loss_factor() / rows as f32),
            ),
            Instruction::SumSquares {
                shape: [rows, width],
                x,
                out,
                skip,
            } => commands.sum_squares(&ops::SumSquares::new(
                tensor(x).matrix(rows, width),
                tensor(out).skip(skip).vector(rows),
            )),
            Instruction::SumRows {
                shape: [rows, width],
                x,
                out,
            } => commands.sum_rows(&ops::SumRows::new(
                tensor(x).matrix(rows, width),
                tensor(out).vector(width),
            )),
            Instruction::Embedding {
                shape,
                table,
                ids,
                scale,
                out,
            } => commands.embedding(
                &ops::Embedding::new(
                    tensor(table).matrix(shape.vocab, shape.width),
                    tensor(ids).vector(shape.rows),
                    tensor(out).matrix(shape.rows, shape.width),
                )
                .with_scale(scale),
            ),
            Instruction::EmbeddingBackward {
                shape,
                ids,
                gradient,
                scale,
                out,
            } => commands.embedding_backward(
                &ops::EmbeddingBackward::new(
                    tensor(ids).vector(shape.rows),
                    tensor(gradient).matrix(shape.rows, shape.width),
                    tensor(out).matrix(shape.vocab, shape.width),
                )
                .with_scale(scale),
            ),
            Instruction::RmsNorm {
                shape: [rows, width],
                x,
                weight,
                eps,
                out,
            } => commands.rms_norm(&ops::RmsNorm::new(
                tensor(x).matrix(rows, width),
                tensor(weight).vector(width),
                tensor(out).matrix(rows, width),
                eps,
            )),
            Instruction::RmsNormBackward {
                shape: [rows, width],
                x,
                weight,
                eps,
                gradient,
                of_x,
                products,
            } => commands.rms_norm_backward(&ops::RmsNormBackward::new(
                tensor(x).matrix(rows, width),
                tensor(weight).vector(width),
                tensor(gradient).matrix(rows, width),
                tensor(of_x).matrix(rows, width),
                tensor(products).matrix(rows, width),
                eps,
            )),
            Instruction::Gated {
                gate,
                count,
                a,
                b,
                out,
            } => {
                let operands = ops::Elementwise::new(
                    tensor(a).vector(count),
                    tensor(b).vector(count),
                    tensor(out).vector(count),
                );
                match gate {
                    Gate::Silu => commands.silu_mul(&operands),
                    Gate::Gelu => commands.gelu_mul(&operands),
                }
            }
            Instruction::GatedBackward {
                gate,
                count,
                a,
                b,
                gradient,
                of_a,
                of_b,
            } => {
                let operands = ops::GatedBackward::new(
                    tensor(a).vector(count),
                    tensor(b).vector(count),
                    tensor(gradient).vector(count),
                    tensor(of_a).vector(count),
                    tensor(of_b).vector(count),
                );
                match gate {
                    Gate::Silu => commands.silu_mul_backward(&operands),
                    Gate::Gelu => commands.gelu_mul_backward(&operands),
                }
            }
            Instruction::Softmax {
                shape: [rows, width],
                x,
                out,
            } => commands.softmax(&ops::Softmax::new(
                tensor(x).matrix(rows, width),
                tensor(out).matrix(rows, width),
            )),
            Instruction::SoftmaxBackward {
                shape: [rows, width],
                y,
                gradient,
                out,
            } => commands.softmax_backward(&ops::SoftmaxBackward::new(
                tensor(y).matrix(rows, width),
                tensor(gradient).matrix(rows, width),
                tensor(out).matrix(rows, width),
            )),
            Instruction::Rope {
                shape: [rows, width],
                rotation,
                back,
                positions,
                factors,
                from,
                to,
            } => {
                commands.copy(&ops::CopyRows::new(
                    tensor(from).matrix(rows, width),
                    tensor(to).matrix(rows, width),
                ))?;
                commands.rope(
                    &ops::Rope::new(
                        tensor(to).matrix(rows, width),
                        tensor(positions).vector(rows),
                        rotation.head_dim,
                        rotation.base,
                    )
                    .with_rotary_dim(factors.map(|(_, pairs)| 2 * pairs))
                    .with_factors(factors.map(|(factors, pairs)| tensor(factors).vector(pairs)))
                    .with_pairing(rotation.pairing)
                    // Backward is the rotation by the same angles the other way round.
                    .with_frequency_scale(back.then_some(-1.0)),
                )
            }
            Instruction::Attention {
                shape,
                q,
                k,
                v,
                out,
            } => {
                for (start, tokens) in self.sequences(shape) {
                    let row = start * shape.head_dim;
                    let rows = |place, heads| {
                        let first = tensor(place).skip(row * heads);
                        first.matrix(tokens, heads * shape.head_dim)
                    };
                    let wide = |place| rows(place, shape.heads);
                    let narrow = |place| rows(place, shape.kv_heads);
                    commands.attention(
                        &ops::Attention::new(
                            wide(q),
                            narrow(k),
                            narrow(v),
                            wide(out),
                            shape.head_dim,
                        )
                        .with_scale(shape.scale),
                    )?;
                }
                Ok(())
            }
            Instruction::AttentionBackward {
                shape,
                q,
                k,
                v,
                out,
                gradient,
                of_q,
                of_k,
                of_v,
            } => {
                for (start, tokens) in self.sequences(shape) {
                    let row = start * shape.head_dim;
                    let rows = |place, heads| {
                        let first = tensor(place).skip(row * heads);
                        first.matrix(tokens, heads * shape.head_dim)
                    };
                    let wide = |place| rows(place, shape.heads);
                    let narrow = |place| rows(place, shape.kv_heads);
                    commands.attention_backward(
                        &ops::AttentionBackward::new(
                            [wide(q), narrow(k), narrow(v)],
                            [wide(out), wide(gradient)],
                            [wide(of_q), narrow(of_k), narrow(of_v)],
                            shape.head_dim,
                        )
                        .with_scale(shape.scale),
                    )?;
                }
                Ok(())
            }
        }
    }
}
