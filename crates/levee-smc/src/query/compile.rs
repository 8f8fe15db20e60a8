//! Trees to code for the [machine](super::machine).
//!
//! A *block* is code that ends with what becomes of its value: it is done, discarded, another operator's (now or in the next
//! state), or made of other blocks' values. Code of one state within it leaves its value on the stack.

use super::analysis::{Observed, Offer, Scope};
use super::error::{Place, Sources, Span};
use super::file::TIME;
use super::syntax::{BinaryOp, Definition, Expr, ExprKind, UnaryOp};

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op {
    Push(f64),
    Argument(u32),
    Observe(u32),
    /// The observable whose number is on the stack; the place is for a number that is none.
    ObserveNumbered(u32),
    Steps,
    Ended,
    Unary(UnaryOp),
    Binary(BinaryOp),
    Jump(u32),
    JumpIfFalse(u32),
    /// Calls a routine of one state, with its arguments on the stack.
    Enter(u32),
    /// Ends such a routine.
    Return,
    /// Ends a block: its value is on the stack.
    Done,
    /// Ends a block: goes on in a routine, with its arguments on the stack.
    Tail(u32),
    /// Ends a block: goes on in a routine in the next state.
    Next(u32),
    /// Ends a block: its value is made of others.
    Fork(u32),
    /// Ends a block: there is no value.
    Discard,
}

/// An operator.
#[derive(Clone, Debug)]
pub(super) struct Routine {
    pub(super) arity: u32,
    /// Where its block starts.
    pub(super) block: u32,
    /// Where its code of one state starts, if it does not look ahead.
    now: u32,
    /// Until when it only calls itself with the same arguments.
    pub(super) wait: Option<Wait>,
    /// Its name and place, for one that never ends.
    pub(super) name: String,
    pub(super) place: u32,
}

/// `if clock >= moment then … else # itself fi`: before the moment there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait {
    pub(super) clock: Clock,
    pub(super) moment: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Time,
    Steps,
    /// The end of the run.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Moment {
    Argument(u32),
    At(f64),
}

/// A value made of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fork {
    pub(super) join: Join,
    /// The blocks of the operands; those without one are on the stack.
    pub(super) blocks: [Option<u32>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Join {
    Unary(UnaryOp),
    Binary(BinaryOp),
}

/// Where an expression that is asked for starts.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) block: u32,
    /// In the last state of the run, not in the first.
    pub(super) at_end: bool,
    pub(super) arguments: Vec<f64>,
    pub(super) place: u32,
}

/// A mean over equal steps of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    /// Its code of one state; ends with [`Op::Done`].
    pub(super) block: u32,
    pub(super) from: f64,
    pub(super) step: f64,
    pub(super) count: usize,
    /// The list of the row that they go to.
    pub(super) list: usize,
    pub(super) place: u32,
}

/// Everything that is asked of a run. A root's index is its column.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    pub(super) routines: Vec<Routine>,
    pub(super) forks: Vec<Fork>,
    pub(super) roots: Vec<Root>,
    pub(super) series: Vec<Series>,
    /// Lists of the row that hold samples of the model: which list, which samples.
    pub(super) samples: Vec<(usize, usize)>,
    /// How many lists the row has.
    pub(super) lists: usize,
    pub(super) places: Vec<Place>,
    /// The model's `time`.
    pub(super) time: Option<u32>,
    /// How many observables the model has.
    pub(super) observables: u32,
    /// Most arguments of a routine or root.
    pub(super) arguments_max: usize,
    /// Whether the number of steps at the end is asked for.
    pub(super) counts_steps: bool,
}

/// Adds one text's definitions and expressions to the code.
pub(super) struct Compiler<'a> {
    pub(super) code: &'a mut Code,
    pub(super) scope: &'a Scope<'a>,
    sources: &'a Sources,
    pub(super) offer: Offer<'a>,
    /// The routine of the text's first definition.
    first: u32,
    /// Parameters of the definition that is being compiled.
    parameters: Vec<&'a str>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        code: &'a mut Code,
        scope: &'a Scope<'a>,
        offer: Offer<'a>,
        sources: &'a Sources,
    ) -> Self {
        let first = index(code.routines.len());
        let mut compiler = Self {
            code,
            scope,
            sources,
            offer,
            first,
            parameters: Vec::new(),
        };
        compiler.definitions();
        compiler
    }

    fn definitions(&mut self) {
        for definition in self.scope.definitions {
            let place = self.place(definition.span);
            let arity = index(definition.parameters.len());
            self.routine(arity, &definition.name, place);
        }
        for (at, definition) in self.scope.definitions.iter().enumerate() {
            self.parameters = definition
                .parameters
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            let routine = self.first as usize + at;
            self.code.routines[routine].wait = self.wait(definition);
            if !self.scope.facts[at].ahead {
                self.code.routines[routine].now = self.here();
                self.now(&definition.body);
                self.emit(Op::Return);
            }
            self.code.routines[routine].block = self.here();
            self.block(&definition.body);
        }
    }

    fn routine(&mut self, arity: u32, name: &str, place: u32) -> u32 {
        self.code.arguments_max = self.code.arguments_max.max(arity as usize);
        self.code.routines.push(Routine {
            arity,
            block: 0,
            now: 0,
            wait: None,
            name: name.to_owned(),
            place,
        });
        index(self.code.routines.len() - 1)
    }

    /// Compiles what is asked for; gives where it starts.
    pub(super) fn root_block(&mut self, expr: &Expr, parameter: Option<&'a str>) -> u32 {
        self.parameters = parameter.into_iter().collect();
        let arguments = self.parameters.len();
        self.code.arguments_max = self.code.arguments_max.max(arguments);
        let start = self.here();
        self.block(expr);
        start
    }

    pub(super) fn place(&mut self, span: Span) -> u32 {
        self.code.places.push(self.sources.place(span));
        index(self.code.places.len() - 1)
    }

    fn here(&self) -> u32 {
        index(self.code.ops.len())
    }

    fn emit(&mut self, op: Op) {
        self.code.counts_steps |= op == Op::Steps;
        self.code.ops.push(op);
    }

    /// A jump that has yet to [land](Self::land).
    fn jump(&mut self, op: Op) -> usize {
        self.emit(op);
        self.code.ops.len() - 1
    }

    /// Lets a jump lead to here.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        self.code.ops[jump] = match self.code.ops[jump] {
            Op::JumpIfFalse(_) => Op::JumpIfFalse(here),
            _ => Op::Jump(here),
        };
    }

    fn routine_of(&self, name: &str) -> u32 {
        self.first + index(self.scope.index(name))
    }

    fn argument(&self, name: &str) -> u32 {
        let at = self.parameters.iter().position(|known| *known == name);
        index(at.expect("names are checked"))
    }

    /// Code of one state.
    fn now(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Number(number) => self.emit(Op::Push(*number)),
            ExprKind::Text(name) => {
                let number = self.offer.named(name).map_or(f64::NAN, Observed::number);
                // A number may come to be read.
                self.code.counts_steps |= number == Observed::Steps.number();
                self.emit(Op::Push(number));
            }
            ExprKind::Name(name) => {
                let argument = self.argument(name);
                self.emit(Op::Argument(argument));
            }
            ExprKind::Observe(argument) => self.observe(argument),
            ExprKind::Call(name, arguments) => {
                arguments.iter().for_each(|argument| self.now(argument));
                let routine = self.routine_of(name);
                self.emit(Op::Enter(routine));
            }
            ExprKind::If(parts) => {
                let [condition, yes, no] = &**parts;
                self.choose(condition, |c| c.now(yes), |c| c.now(no));
            }
            ExprKind::Unary(op, inner) => {
                self.now(inner);
                self.emit(Op::Unary(*op));
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), operands) => {
                let [a, b] = &**operands;
                let decided = f64::from(*op == BinaryOp::Or);
                let other = |c: &mut Self| {
                    c.now(b);
                    if !c.scope.truth(b) {
                        c.emit(Op::Unary(UnaryOp::Truth));
                    }
                };
                let known = |c: &mut Self| c.emit(Op::Push(decided));
                if *op == BinaryOp::Or {
                    self.choose(a, known, other);
                } else {
                    self.choose(a, other, known);
                }
            }
            ExprKind::Binary(op, operands) => {
                operands.iter().for_each(|operand| self.now(operand));
                self.emit(Op::Binary(*op));
            }
            ExprKind::Next(_) | ExprKind::Discard => unreachable!("these look ahead"),
        }
    }

    fn choose(
        &mut self,
        condition: &Expr,
        yes: impl FnOnce(&mut Self),
        no: impl FnOnce(&mut Self),
    ) {
        self.now(condition);
        let to_no = self.jump(Op::JumpIfFalse(0));
        yes(self);
        let to_end = self.jump(Op::Jump(0));
        self.land(to_no);
        no(self);
        self.land(to_end);
    }

    fn observe(&mut self, argument: &Expr) {
        match self.scope.observed(argument) {
            Some(Observed::Model(observable)) => self.emit(Op::Observe(observable)),
            Some(Observed::Steps) => self.emit(Op::Steps),
            Some(Observed::Ended) => self.emit(Op::Ended),
            None => {
                self.now(argument);
                let place = self.place(argument.span);
                self.emit(Op::ObserveNumbered(place));
            }
        }
    }

    /// Code that ends with what becomes of the value.
    fn block(&mut self, expr: &Expr) {
        if !self.scope.ahead(expr) {
            self.now(expr);
            self.emit(Op::Done);
            return;
        }
        match &expr.kind {
            ExprKind::Discard => self.emit(Op::Discard),
            ExprKind::Next(inner) => self.next(inner),
            ExprKind::Call(name, arguments) => {
                arguments.iter().for_each(|argument| self.now(argument));
                let routine = self.routine_of(name);
                self.emit(Op::Tail(routine));
            }
            ExprKind::If(parts) => {
                let [condition, yes, no] = &**parts;
                self.branch(condition, |c| c.block(yes), |c| c.block(no));
            }
            ExprKind::Unary(UnaryOp::Truth, inner) if self.scope.truth(inner) => self.block(inner),
            ExprKind::Unary(op, inner) => self.fork(Join::Unary(*op), &[inner]),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), operands) => {
                self.logic(*op, &operands[0], &operands[1]);
            }
            ExprKind::Binary(op, operands) => {
                self.fork(Join::Binary(*op), &[&operands[0], &operands[1]]);
            }
            _ => unreachable!("these do not look ahead"),
        }
    }

    fn branch(
        &mut self,
        condition: &Expr,
        yes: impl FnOnce(&mut Self),
        no: impl FnOnce(&mut Self),
    ) {
        self.now(condition);
        let to_no = self.jump(Op::JumpIfFalse(0));
        yes(self);
        self.land(to_no);
        no(self);
    }

    fn next(&mut self, inner: &Expr) {
        if let ExprKind::Call(name, arguments) = &inner.kind {
            arguments.iter().for_each(|argument| self.now(argument));
            let routine = self.routine_of(name);
            self.emit(Op::Next(routine));
            return;
        }
        // An observation: an operator of its own, with the parameters of this one.
        let place = self.place(inner.span);
        let arity = index(self.parameters.len());
        let routine = self.routine(arity, &self.sources.words(inner.span), place);
        for argument in 0..arity {
            self.emit(Op::Argument(argument));
        }
        self.emit(Op::Next(routine));
        self.code.routines[routine as usize].block = self.here();
        self.block(inner);
    }

    /// `&&` and `||`: an operand of this state is taken first, and may decide. If both look ahead, both are followed to their ends.
    fn logic(&mut self, op: BinaryOp, a: &Expr, b: &Expr) {
        let (now, later) = match (self.scope.ahead(a), self.scope.ahead(b)) {
            (true, true) => return self.fork(Join::Binary(op), &[a, b]),
            (true, false) => (b, a),
            _ => (a, b),
        };
        let decided = f64::from(op == BinaryOp::Or);
        let other = |c: &mut Self| match c.scope.truth(later) {
            true => c.block(later),
            false => c.fork(Join::Unary(UnaryOp::Truth), &[later]),
        };
        let known = |c: &mut Self| {
            c.emit(Op::Push(decided));
            c.emit(Op::Done);
        };
        if op == BinaryOp::Or {
            self.branch(now, known, other);
        } else {
            self.branch(now, other, known);
        }
    }

    /// A value made of operands: those of this state are taken now, the others get blocks.
    fn fork(&mut self, join: Join, operands: &[&Expr]) {
        let fork = self.code.forks.len();
        self.code.forks.push(Fork {
            join,
            blocks: [None; 2],
        });
        for operand in operands {
            if !self.scope.ahead(operand) {
                self.now(operand);
            }
        }
        self.emit(Op::Fork(index(fork)));
        for (side, operand) in operands.iter().enumerate() {
            if self.scope.ahead(operand) {
                self.code.forks[fork].blocks[side] = Some(self.here());
                self.block(operand);
            }
        }
    }

    /// Whether an operator only waits for a moment, and for which.
    fn wait(&self, definition: &Definition) -> Option<Wait> {
        let ExprKind::If(parts) = &definition.body.kind else {
            return None;
        };
        let [condition, yes, no] = &**parts;
        let is_itself = |expr: &Expr| {
            let ExprKind::Next(inner) = &expr.kind else {
                return false;
            };
            let ExprKind::Call(name, arguments) = &inner.kind else {
                return false;
            };
            let same = |(argument, (parameter, _)): (&Expr, &(String, Span))| matches!(&argument.kind, ExprKind::Name(name) if name == parameter);
            *name == definition.name && arguments.iter().zip(&definition.parameters).all(same)
        };
        if let Some(Observed::Ended) = self.reads(condition)
            && is_itself(no)
        {
            return Some(Wait {
                clock: Clock::End,
                moment: Moment::At(0.0),
            });
        }
        let ExprKind::Binary(op, operands) = &condition.kind else {
            return None;
        };
        let [a, b] = &**operands;
        let (op, clock, moment) = match (self.clock(a), self.clock(b)) {
            (Some(clock), None) => (*op, clock, b),
            (None, Some(clock)) => (op.flipped(), clock, a),
            _ => return None,
        };
        // Before the moment these are false, and those true.
        let waits = match op {
            BinaryOp::GreaterEqual | BinaryOp::Greater | BinaryOp::Equal => is_itself(no),
            BinaryOp::Less | BinaryOp::LessEqual | BinaryOp::NotEqual => is_itself(yes),
            _ => false,
        };
        let moment = match &moment.kind {
            ExprKind::Number(number) => Moment::At(*number),
            ExprKind::Name(name) => Moment::Argument(self.argument(name)),
            _ => return None,
        };
        waits.then_some(Wait { clock, moment })
    }

    fn reads(&self, expr: &Expr) -> Option<Observed> {
        let ExprKind::Observe(argument) = &expr.kind else {
            return None;
        };
        self.scope.observed(argument)
    }

    fn clock(&self, expr: &Expr) -> Option<Clock> {
        match self.reads(expr)? {
            time @ Observed::Model(_) if self.offer.named(TIME) == Some(time) => Some(Clock::Time),
            Observed::Steps => Some(Clock::Steps),
            _ => None,
        }
    }
}

impl Code {
    pub(super) fn new(offer: Offer<'_>) -> Self {
        let time = match offer.named(TIME) {
            Some(Observed::Model(index)) => Some(index),
            _ => None,
        };
        Self {
            time,
            observables: index(offer.observables.len()),
            ..Self::default()
        }
    }

    /// Where a routine's code of one state starts.
    pub(super) fn now_of(&self, routine: u32) -> u32 {
        self.routines[routine as usize].now
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("texts are too short for more code than that")
}
