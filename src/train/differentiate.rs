//! The instructions of both passes, and from when to when the memory of each tensor is in use.

use std::ops::Range;

use crate::dtype::DType;
use crate::train::arena::Life;
use crate::train::instruction::{
    AttentionShape, EmbeddingShape, Instruction, LinearShape, Place, ProductShape,
};
use crate::train::precision::Precision;
use crate::train::tape::{Operation, Source, Tape};

/// A part of an operand's gradient.
#[derive(Clone, Copy)]
struct Part {
    operand: usize,
    place: Place,
    /// What it is added to, if it is not the first one.
    sum: Option<Place>,
}

/// A plan in the making.
pub(super) struct Builder {
    pub tape: Tape,
    pub loss: usize,
    pub places: Vec<Place>,
    pub lives: Vec<Life>,
    /// Places of which there are copies of another type, and those.
    pub copies: Vec<(Place, Place)>,
    /// The gradient of each tensor, once something has been added to it.
    pub gradients: Vec<Option<Place>>,
    /// Whether a tensor depends on a parameter.
    pub learns: Vec<bool>,
    /// The number of the instruction in the making, over both passes.
    pub now: usize,
}

impl Builder {
    fn of(&self, tensor: usize) -> Place {
        self.places[tensor]
    }

    fn elements(&self, tensor: usize) -> usize {
        self.tape.tensors[tensor].elements()
    }

    /// Memory of F32 from now on.
    fn begin(&mut self, elements: usize) -> Place {
        self.begin_of(DType::F32, elements)
    }

    /// Memory from now on, of a type without blocks.
    fn begin_of(&mut self, dtype: DType, elements: usize) -> Place {
        self.lives.push(Life {
            elements: (elements * dtype.block_bytes()).div_ceil(size_of::<f32>()),
            dtype,
            during: self.now..=self.now,
        });
        Place::Arena(self.lives.len() - 1)
    }

    fn push(&mut self, instruction: Instruction, into: &mut Vec<Instruction>) {
        into.push(instruction);
        self.now += 1;
    }

    fn copy(&mut self, count: usize, from: Place, to: Place, into: &mut Vec<Instruction>) {
        self.touch(from);
        self.touch(to);
        self.push(Instruction::Copy { count, from, to }, into);
    }

    /// The copy of an F32 tensor as another type, made where there is none.
    fn copy_of(
        &mut self,
        from: Place,
        count: usize,
        dtype: DType,
        into: &mut Vec<Instruction>,
    ) -> Place {
        let known = self.copies.iter().find(|(of, _)| *of == from);
        if let Some(&(_, copy)) = known {
            return copy;
        }
        let copy = self.begin_of(dtype, count);
        self.copy(count, from, copy, into);
        self.copies.push((from, copy));
        copy
    }

    /// The instruction in the making uses it.
    pub fn touch(&mut self, place: Place) -> Place {
        if let Place::Arena(life) = place {
            let during = &mut self.lives[life].during;
            *during = *during.start()..=self.now;
        }
        place
    }

    pub fn read(&mut self, tensor: usize) -> Place {
        let place = self.of(tensor);
        self.touch(place)
    }

    fn linear_shape(&self, x: usize, weight: usize) -> LinearShape {
        let [rows, inputs] = self.tape.tensors[x].shape;
        LinearShape {
            rows,
            inputs,
            outputs: self.tape.tensors[weight].shape[0],
        }
    }

    fn embedding_shape(&self, table: usize, ids: usize) -> EmbeddingShape {
        let [vocab, width] = self.tape.tensors[table].shape;
        EmbeddingShape {
            rows: self.tape.tensors[ids].shape[0],
            width,
            vocab,
        }
    }

    fn attention_shape(
        &self,
        q: usize,
        k: usize,
        head_dim: usize,
        sequence: usize,
        scale: Option<f32>,
    ) -> AttentionShape {
        let [rows, wide] = self.tape.tensors[q].shape;
        AttentionShape {
            sequence,
            sequences: rows / sequence,
            heads: wide / head_dim,
            kv_heads: self.tape.tensors[k].shape[1] / head_dim,
            head_dim,
            scale,
        }
    }

    /// Each row, or each head of it where the weight is as long as one.
    fn norm_shape(&self, x: usize, weight: usize) -> [usize; 2] {
        let width = self.tape.tensors[weight].shape[1];
        [self.elements(x) / width, width]
    }

    fn factors(&mut self, factors: Option<usize>) -> Option<(Place, usize)> {
        factors.map(|factors| (self.read(factors), self.elements(factors)))
    }

    /// Memory for what an operation makes.
    fn new_place(&mut self, out: usize) -> Place {
        self.places[out] = self.begin(self.elements(out));
        self.of(out)
    }

    /// The instructions of an operation. A loss writes the gradient of what it judges at once.
    pub fn forward(&mut self, operation: Operation, into: &mut Vec<Instruction>) {
        if let Operation::Linear {
            x,
            weight,
            bias,
            scale,
            out,
        } = operation
        {
            return self.linear(x, weight, bias, scale, out, into);
        }
        let instruction = self.other_than_linear(operation);
        self.push(instruction, into);
    }

    fn precision_of(&self, weight: usize) -> Precision {
        match self.tape.sources[weight] {
            Source::Parameter(_) => self.tape.precision,
            _ => Precision::F32,
        }
    }

    /// A weight in the type that it is multiplied in.
    fn multiplied_weight(&mut self, weight: usize, into: &mut Vec<Instruction>) -> Place {
        let place = self.of(weight);
        match self.precision_of(weight).of_weights() {
            Some(dtype) => self.copy_of(place, self.elements(weight), dtype, into),
            None => place,
        }
    }

    fn linear(
        &mut self,
        x: usize,
        weight: usize,
        bias: Option<usize>,
        scale: f32,
        out: usize,
        into: &mut Vec<Instruction>,
    ) {
        let LinearShape {
            rows,
            inputs,
            outputs,
        } = self.linear_shape(x, weight);
        let in_halves = self.precision_of(weight) == Precision::F16;
        let b = self.multiplied_weight(weight, into);
        let mut operand = |builder: &mut Builder, tensor: usize| match in_halves {
            true => {
                let (place, count) = (builder.of(tensor), builder.elements(tensor));
                builder.copy_of(place, count, DType::F16, into)
            }
            false => builder.of(tensor),
        };
        let a = operand(self, x);
        let bias = bias.map(|bias| operand(self, bias));
        let c = match in_halves {
            true => self.begin_of(DType::F16, rows * outputs),
            false => self.new_place(out),
        };
        for place in [Some(a), Some(b), bias].into_iter().flatten() {
            self.touch(place);
        }
        let product = Instruction::Product {
            shape: ProductShape {
                m: rows,
                n: outputs,
                k: inputs,
            },
            a,
            transpose_a: false,
            b,
            transpose_b: true,
            bias,
            alpha: scale,
            c,
        };
        self.push(product, into);
        if in_halves {
            let out = self.new_place(out);
            self.copy(rows * outputs, c, out, into);
        }
    }

    fn other_than_linear(&mut self, operation: Operation) -> Instruction {
        match operation {
            Operation::Embedding {
                table,
                ids,
                scale,
                out,
            } => Instruction::Embedding {
                shape: self.embedding_shape(table, ids),
                table: self.read(table),
                ids: self.read(ids),
                scale,
                out: self.new_place(out),
            },
            Operation::RmsNorm {
                x,
                weight,
                eps,
                out,
            } => Instruction::RmsNorm {
                shape: self.norm_shape(x, weight),
                x: self.read(x),
                weight: self.read(weight),
                eps,
                out: self.new_place(out),
            },
            Operation::Gated { gate, a, b, out } => Instruction::Gated {
                gate,
                count: self.elements(a),
                a: self.read(a),
                b: self.read(b),
                out: self.new_place(out),
            },
            Operation::Softmax { x, out } => Instruction::Softmax {
                shape: self.tape.tensors[x].shape,
                x: self.read(x),
                out: self.new_place(out),
            },
            Operation::Rope {
                x,
                positions,
                rotation,
                factors,
                out,
            } => Instruction::Rope {
                shape: self.tape.tensors[x].shape,
                rotation,
                back: false,
                positions: self.read(positions),
                factors: self.factors(factors),
                from: self.read(x),
                to: self.new_place(out),
            },
            Operation::Attention {
                q,
                k,
                v,
                head_dim,
                sequence,
                scale,
                out,
            } => Instruction::Attention {
                shape: self.attention_shape(q, k, head_dim, sequence, scale),
                q: self.read(q),
                k: self.read(k),
                v: self.read(v),
                out: self.new_place(out),
            },
            Operation::Linear { .. } => unreachable!("it has instructions of its own"),
            Operation::Activation { function, x, out } => Instruction::Activation {
                function,
                count: self.elements(x),
                x: self.read(x),
                out: self.new_place(out),
            },
            Operation::Add { a, b, out } => Instruction::Add {
                count: self.elements(a),
                a: self.read(a),
                b: self.read(b),
                out: self.new_place(out),
            },
            Operation::Mse {
                prediction,
                target,
                out,
            } => Instruction::Mse {
                shape: self.tape.tensors[prediction].shape,
                prediction: self.read(prediction),
                target: self.read(target),
                gradient: self.gradient_of_loss(prediction),
                loss: self.of(out),
            },
            Operation::CrossEntropy {
                logits,
                labels,
                out,
            } => Instruction::CrossEntropy {
                shape: self.tape.tensors[logits].shape,
                logits: self.read(logits),
                labels: self.read(labels),
                gradient: self.gradient_of_loss(logits),
                loss: self.of(out),
            },
        }
    }

    /// Computes again what only a block's own operations use.
    pub fn recompute(&mut self, block: Range<usize>, into: &mut Vec<Instruction>) {
        // Copies of what the block takes are made again, too; those of weights stay.
        self.copies.retain(|(of, _)| matches!(of, Place::Own(_)));
        let operations = self.tape.operations.clone();
        for operation in &operations[block.clone()] {
            let (_, out) = operation.flow();
            let mut after = operations[block.end..].iter();
            let is_used = after.any(|other| other.takes(out)) || self.tape.kept.contains(&out);
            if !is_used {
                self.forward(*operation, into);
            }
        }
    }

    fn gradient_of_loss(&mut self, judged: usize) -> Place {
        let place = self.begin(self.elements(judged));
        self.gradients[judged] = Some(place);
        place
    }

    /// The gradient of what an operation made, if the loss depends on it and it on a parameter.
    fn gradient(&mut self, out: usize) -> Option<Place> {
        let place = self.gradients[out].filter(|_| self.learns[out])?;
        Some(self.touch(place))
    }

    /// Memory for a part of an operand's gradient, if it needs one.
    fn gradient_for(&mut self, operand: usize) -> Option<Part> {
        if !self.learns[operand] {
            return None;
        }
        let place = self.begin(self.elements(operand));
        let sum = self.gradients[operand];
        self.gradients[operand] = sum.or(Some(place));
        Some(Part {
            operand,
            place,
            sum,
        })
    }

    /// A frozen weight as F32, if a gradient goes through it.
    fn unpack(
        &mut self,
        weight: usize,
        wanted: bool,
        into: &mut Vec<Instruction>,
    ) -> Option<Place> {
        let Source::Frozen(Some(rows)) = self.tape.sources[weight] else {
            return None;
        };
        if !wanted {
            return None;
        }
        let out = self.begin(self.elements(weight));
        into.push(Instruction::Unpack {
            shape: self.embedding_shape(weight, rows),
            weight: self.read(weight),
            rows: self.read(rows),
            out,
        });
        self.now += 1;
        Some(out)
    }

    /// Memory for an operand's gradient, also where nobody asks for it.
    fn room(&mut self, operand: usize, part: Option<Part>) -> Place {
        match part {
            Some(part) => part.place,
            None => self.begin(self.elements(operand)),
        }
    }

    /// Adds the parts of gradients that have several.
    fn add_up(&mut self, parts: &[Option<Part>], into: &mut Vec<Instruction>) {
        for part in parts.iter().flatten() {
            let Some(sum) = part.sum else {
                continue;
            };
            into.push(Instruction::Add {
                count: self.elements(part.operand),
                a: self.touch(sum),
                b: self.touch(part.place),
                out: sum,
            });
            self.now += 1;
        }
    }

    /// In one operation, all in F32.
    fn linear_backward(
        &mut self,
        x: usize,
        weight: usize,
        gradient: Place,
        parts: [Option<Part>; 3],
        into: &mut Vec<Instruction>,
    ) {
        let unpacked = self.unpack(weight, parts[0].is_some(), into);
        let multiplied = unpacked.unwrap_or(self.of(weight));
        let [of_x, of_weight, of_bias] = parts.map(|part| part.map(|part| self.touch(part.place)));
        let instruction = Instruction::LinearBackward {
            shape: self.linear_shape(x, weight),
            x: self.read(x),
            weight: self.touch(multiplied),
            gradient: self.touch(gradient),
            of_x,
            of_weight,
            of_bias,
        };
        self.push(instruction, into);
    }

    /// A product for each gradient, in the precision of the tape or with a scale.
    fn linear_backward_by_products(
        &mut self,
        x: usize,
        weight: usize,
        gradient: Place,
        [of_x, of_weight, of_bias]: [Option<Part>; 3],
        scale: f32,
        into: &mut Vec<Instruction>,
    ) {
        let LinearShape {
            rows,
            inputs,
            outputs,
        } = self.linear_shape(x, weight);
        let in_halves = self.precision_of(weight) == Precision::F16;
        let multiplied = match in_halves {
            true => self.copy_of(gradient, rows * outputs, DType::F16, into),
            false => gradient,
        };
        if let Some(part) = of_x {
            let unpacked = self.unpack(weight, true, into);
            let b = match unpacked {
                Some(unpacked) => unpacked,
                None => self.multiplied_weight(weight, into),
            };
            let shape = ProductShape {
                m: rows,
                n: inputs,
                k: outputs,
            };
            self.gradient_product(shape, [multiplied, b], false, scale, part, into);
        }
        if let Some(part) = of_weight {
            let b = match in_halves {
                true => self.copy_of(self.of(x), rows * inputs, DType::F16, into),
                false => self.of(x),
            };
            let shape = ProductShape {
                m: outputs,
                n: inputs,
                k: rows,
            };
            self.gradient_product(shape, [multiplied, b], true, scale, part, into);
        }
        if let Some(part) = of_bias {
            let sum = Instruction::SumRows {
                shape: [rows, outputs],
                x: self.touch(gradient),
                out: self.touch(part.place),
            };
            self.push(sum, into);
        }
    }

    /// A product whose result is a gradient in F32, whatever the type of its operands.
    fn gradient_product(
        &mut self,
        shape: ProductShape,
        [a, b]: [Place; 2],
        transpose_a: bool,
        alpha: f32,
        part: Part,
        into: &mut Vec<Instruction>,
    ) {
        let count = shape.m * shape.n;
        let c = match self.dtype(a) {
            DType::F16 => self.begin_of(DType::F16, count),
            _ => part.place,
        };
        for place in [a, b, c] {
            self.touch(place);
        }
        let product = Instruction::Product {
            shape,
            a,
            transpose_a,
            b,
            transpose_b: false,
            bias: None,
            alpha,
            c,
        };
        self.push(product, into);
        if c != part.place {
            self.copy(count, c, part.place, into);
        }
    }

    fn dtype(&self, place: Place) -> DType {
        match place {
            Place::Own(tensor) => self.tape.tensors[tensor].dtype,
            Place::Arena(life) => self.lives[life].dtype,
        }
    }

    pub fn backward(&mut self, operation: Operation, into: &mut Vec<Instruction>) {
        let place = |part: Option<Part>| part.map(|part| part.place);
        match operation {
            Operation::Linear {
                x,
                weight,
                bias,
                scale,
                out,
            } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let parts = [
                    self.gradient_for(x),
                    self.gradient_for(weight),
                    bias.and_then(|bias| self.gradient_for(bias)),
                ];
                if self.precision_of(weight) == Precision::F32 && scale == 1.0 {
                    self.linear_backward(x, weight, gradient, parts, into);
                } else {
                    self.linear_backward_by_products(x, weight, gradient, parts, scale, into);
                }
                self.add_up(&parts, into);
            }
            Operation::Activation { function, x, out } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let part = self.gradient_for(x);
                if let Some(to) = place(part) {
                    into.push(Instruction::ActivationBackward {
                        function,
                        count: self.elements(x),
                        y: self.read(out),
                        gradient,
                        out: to,
                    });
                    self.now += 1;
                    self.add_up(&[part], into);
                }
            }
            Operation::Add { a, b, out } => {
                for operand in [a, b] {
                    let Some(from) = self.gradient(out) else {
                        return;
                    };
                    let count = self.elements(operand);
                    match (self.learns[operand], self.gradients[operand]) {
                        (false, _) => continue,
                        (true, Some(sum)) => into.push(Instruction::Add {
                            count,
                            a: self.touch(sum),
                            b: from,
                            out: sum,
                        }),
                        (true, None) => {
                            let to = self.begin(count);
                            self.gradients[operand] = Some(to);
                            into.push(Instruction::Copy { count, from, to });
                        }
                    }
                    self.now += 1;
                }
            }
            Operation::Embedding {
                table,
                ids,
                scale,
                out,
            } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let part = self.gradient_for(table);
                if let Some(to) = place(part) {
                    into.push(Instruction::EmbeddingBackward {
                        shape: self.embedding_shape(table, ids),
                        ids: self.read(ids),
                        gradient,
                        scale,
                        out: to,
                    });
                    self.now += 1;
                    self.add_up(&[part], into);
                }
            }
            Operation::RmsNorm {
                x,
                weight,
                eps,
                out,
            } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let shape = self.norm_shape(x, weight);
                let part = self.gradient_for(x);
                let of_x = self.room(x, part);
                let products = self.begin(self.elements(x));
                into.push(Instruction::RmsNormBackward {
                    shape,
                    x: self.read(x),
                    weight: self.read(weight),
                    eps,
                    gradient,
                    of_x,
                    products,
                });
                self.now += 1;
                self.add_up(&[part], into);
                let part = self.gradient_for(weight);
                if let Some(out) = place(part) {
                    let x = self.touch(products);
                    into.push(Instruction::SumRows { shape, x, out });
                    self.now += 1;
                    self.add_up(&[part], into);
                }
            }
            Operation::Gated { gate, a, b, out } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let parts = [self.gradient_for(a), self.gradient_for(b)];
                into.push(Instruction::GatedBackward {
                    gate,
                    count: self.elements(a),
                    a: self.read(a),
                    b: self.read(b),
                    gradient,
                    of_a: self.room(a, parts[0]),
                    of_b: self.room(b, parts[1]),
                });
                self.now += 1;
                self.add_up(&parts, into);
            }
            Operation::Softmax { x, out } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let part = self.gradient_for(x);
                if let Some(to) = place(part) {
                    into.push(Instruction::SoftmaxBackward {
                        shape: self.tape.tensors[x].shape,
                        y: self.read(out),
                        gradient,
                        out: to,
                    });
                    self.now += 1;
                    self.add_up(&[part], into);
                }
            }
            Operation::Rope {
                x,
                positions,
                rotation,
                factors,
                out,
            } => {
                let Some(from) = self.gradient(out) else {
                    return;
                };
                let part = self.gradient_for(x);
                if let Some(to) = place(part) {
                    into.push(Instruction::Rope {
                        shape: self.tape.tensors[x].shape,
                        rotation,
                        back: true,
                        positions: self.read(positions),
                        factors: self.factors(factors),
                        from,
                        to,
                    });
                    self.now += 1;
                    self.add_up(&[part], into);
                }
            }
            Operation::Attention {
                q,
                k,
                v,
                head_dim,
                sequence,
                scale,
                out,
            } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let parts = [q, k, v].map(|operand| self.gradient_for(operand));
                into.push(Instruction::AttentionBackward {
                    shape: self.attention_shape(q, k, head_dim, sequence, scale),
                    q: self.read(q),
                    k: self.read(k),
                    v: self.read(v),
                    out: self.read(out),
                    gradient,
                    of_q: self.room(q, parts[0]),
                    of_k: self.room(k, parts[1]),
                    of_v: self.room(v, parts[2]),
                });
                self.now += 1;
                self.add_up(&parts, into);
            }
            // Their gradients are there since the forward pass.
            Operation::Mse { .. } | Operation::CrossEntropy { .. } => {}
        }
    }
}

impl Builder {
    /// The sum of the squares of all gradients: of each row, and then of all rows.
    pub fn sum_squares(&mut self, of: &[(usize, Place)], into: &mut Vec<Instruction>) -> Place {
        let shape = |builder: &Builder, tensor: usize| builder.tape.tensors[tensor].shape;
        let count = of.iter().map(|&(tensor, _)| shape(self, tensor)[0]).sum();
        let rows = self.begin(count);
        let mut skip = 0;
        for &(tensor, gradient) in of {
            let shape = shape(self, tensor);
            into.push(Instruction::SumSquares {
                shape,
                x: self.touch(gradient),
                out: self.touch(rows),
                skip,
            });
            self.now += 1;
            skip += shape[0];
        }
        let out = self.begin(1);
        let x = self.touch(rows);
        into.push(Instruction::SumRows {
            shape: [count, 1],
            x,
            out,
        });
        self.now += 1;
        out
    }
}

/// Which tensors depend on a parameter.
pub(super) fn learning(tape: &Tape) -> Vec<bool> {
    let is_parameter = |source: &Source| matches!(source, Source::Parameter(_));
    let mut learns: Vec<bool> = tape.sources.iter().map(is_parameter).collect();
    for operation in &tape.operations {
        let (of, out) = operation.flow();
        learns[out] = of.into_iter().any(|operand| learns[operand]);
    }
    learns
}
