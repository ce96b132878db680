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
            } => commands.matmul(&ops::Matmul {
                m: shape.m,
                n: shape.n,
                k: shape.k,
                a: tensor(a),
                transpose_a,
                b: tensor(b),
                transpose_b,
                bias: bias.map(tensor),
                c: tensor(c),
                alpha: Some(alpha),
                ..Default::default()
            }),
            Instruction::Unpack {
                shape,
                weight,
                rows,
                out,
            } => commands.embedding(&ops::Embedding {
                rows: shape.rows,
                width: shape.width,
                vocab: shape.vocab,
                table: tensor(weight),
                ids: tensor(rows),
                out: tensor(out),
                scale: None,
            }),
            Instruction::LinearBackward {
                shape,
                x,
                weight,
                gradient,
                of_x,
                of_weight,
                of_bias,
            } => commands.linear_backward(&ops::LinearBackward {
                rows: shape.rows,
                inputs: shape.inputs,
                outputs: shape.outputs,
                x: tensor(x),
                weight: tensor(weight),
                gradient: tensor(gradient),
                x_gradient: of_x.map(tensor),
                weight_gradient: of_weight.map(tensor),
                bias_gradient: of_bias.map(tensor),
            }),
            Instruction::Activation {
                function,
                count,
                x,
                out,
            } => {
                let operands = ops::Activation {
                    count,
                    x: tensor(x),
                    out: tensor(out),
                    scale: None,
                };
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
                let operands = ops::Elementwise {
                    count,
                    a: tensor(y),
                    b: tensor(gradient),
                    out: tensor(out),
                };
                match function {
                    Function::Relu => commands.relu_backward(&operands),
                    Function::Sigmoid => commands.sigmoid_backward(&operands),
                    Function::Tanh => commands.tanh_backward(&operands),
                }
            }
            Instruction::Add { count, a, b, out } => commands.add(&ops::Elementwise {
                count,
                a: tensor(a),
                b: tensor(b),
                out: tensor(out),
            }),
            Instruction::Copy { count, from, to } => commands.copy(&ops::CopyRows {
                rows: 1,
                width: count,
                src: tensor(from),
                dst: tensor(to),
            }),
            Instruction::Mse {
                shape: [rows, width],
                prediction,
                target,
                gradient,
                loss,
            } => commands.mse(&ops::Mse {
                rows,
                width,
                prediction: tensor(prediction),
                target: tensor(target),
                gradient: tensor(gradient),
                loss: tensor(loss),
                scale: Some(self.loss_factor() / (rows as f32 * width as f32)),
            }),
            Instruction::CrossEntropy {
                shape: [rows, width],
                logits,
                labels,
                gradient,
                loss,
            } => commands.cross_entropy(&ops::CrossEntropy {
                rows,
                width,
                logits: tensor(logits),
                labels: tensor(labels),
                gradient: tensor(gradient),
                loss: tensor(loss),
                scale: Some(self.loss_factor() / rows as f32),
            }),
            Instruction::SumSquares {
                shape: [rows, width],
                x,
                out,
                skip,
            } => commands.sum_squares(&ops::SumSquares {
                rows,
                width,
                x: tensor(x),
                out: tensor(out).skip(skip),
            }),
            Instruction::SumRows {
                shape: [rows, width],
                x,
                out,
            } => commands.sum_rows(&ops::SumRows {
                rows,
                width,
                x: tensor(x),
                out: tensor(out),
            }),
            Instruction::Embedding {
                shape,
                table,
                ids,
                scale,
                out,
            } => commands.embedding(&ops::Embedding {
                rows: shape.rows,
                width: shape.width,
                vocab: shape.vocab,
                table: tensor(table),
                ids: tensor(ids),
                out: tensor(out),
                scale: Some(scale),
            }),
            Instruction::EmbeddingBackward {
                shape,
                ids,
                gradient,
                scale,
                out,
            } => commands.embedding_backward(&ops::EmbeddingBackward {
                rows: shape.rows,
                width: shape.width,
                vocab: shape.vocab,
                ids: tensor(ids),
                gradient: tensor(gradient),
                out: tensor(out),
                scale: Some(scale),
            }),
            Instruction::RmsNorm {
                shape: [rows, width],
                x,
                weight,
                eps,
                out,
            } => commands.rms_norm(&ops::RmsNorm {
                rows,
                width,
                x: tensor(x),
                weight: tensor(weight),
                out: tensor(out),
                eps,
            }),
            Instruction::RmsNormBackward {
                shape: [rows, width],
                x,
                weight,
                eps,
                gradient,
                of_x,
                products,
            } => commands.rms_norm_backward(&ops::RmsNormBackward {
                rows,
                width,
                x: tensor(x),
                weight: tensor(weight),
                gradient: tensor(gradient),
                x_gradient: tensor(of_x),
                products: tensor(products),
                eps,
            }),
            Instruction::Gated {
                gate,
                count,
                a,
                b,
                out,
            } => {
                let operands = ops::Elementwise {
                    count,
                    a: tensor(a),
                    b: tensor(b),
                    out: tensor(out),
                };
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
                let operands = ops::GatedBackward {
                    count,
                    a: tensor(a),
                    b: tensor(b),
                    gradient: tensor(gradient),
                    a_gradient: tensor(of_a),
                    b_gradient: tensor(of_b),
                };
                match gate {
                    Gate::Silu => commands.silu_mul_backward(&operands),
                    Gate::Gelu => commands.gelu_mul_backward(&operands),
                }
            }
            Instruction::Softmax {
                shape: [rows, width],
                x,
                out,
            } => commands.softmax(&ops::Softmax {
                rows,
                width,
                x: tensor(x),
                out: tensor(out),
                scale: None,
            }),
            Instruction::SoftmaxBackward {
                shape: [rows, width],
                y,
                gradient,
                out,
            } => commands.softmax_backward(&ops::SoftmaxBackward {
                rows,
                width,
                y: tensor(y),
                gradient: tensor(gradient),
                out: tensor(out),
                scale: None,
            }),
            Instruction::Rope {
                shape: [rows, width],
                rotation,
                back,
                positions,
                factors,
                from,
                to,
            } => {
                commands.copy(&ops::CopyRows {
                    rows,
                    width,
                    src: tensor(from),
                    dst: tensor(to),
                })?;
                commands.rope(&ops::Rope {
                    tokens: rows,
                    heads: width / rotation.head_dim,
                    head_dim: rotation.head_dim,
                    x: tensor(to),
                    positions: tensor(positions),
                    rotary_dim: factors.map(|(_, pairs)| 2 * pairs),
                    factors: factors.map(|(factors, _)| tensor(factors)),
                    pairing: rotation.pairing,
                    frequency_base: rotation.base,
                    // Backward is the rotation by the same angles the other way round.
                    frequency_scale: back.then_some(-1.0),
                })
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
                    let wide = |place| tensor(place).skip(row * shape.heads);
                    let narrow = |place| tensor(place).skip(row * shape.kv_heads);
                    commands.attention(&ops::Attention {
                        tokens,
                        heads: shape.heads,
                        kv_heads: shape.kv_heads,
                        head_dim: shape.head_dim,
                        q: wide(q),
                        k: narrow(k),
                        v: narrow(v),
                        out: wide(out),
                        scale: shape.scale,
                        ..Default::default()
                    })?;
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
                    let wide = |place| tensor(place).skip(row * shape.heads);
                    let narrow = |place| tensor(place).skip(row * shape.kv_heads);
                    commands.attention_backward(&ops::AttentionBackward {
                        tokens,
                        heads: shape.heads,
                        kv_heads: shape.kv_heads,
                        head_dim: shape.head_dim,
                        q: wide(q),
                        k: narrow(k),
                        v: narrow(v),
                        out: wide(out),
                        gradient: wide(gradient),
                        q_gradient: wide(of_q),
                        k_gradient: narrow(of_k),
                        v_gradient: narrow(of_v),
                        scale: shape.scale,
                    })?;
                }
                Ok(())
            }
        }
    }
}
