import type { OffloadConfig, OptimizerConfig } from '../../config';
import type { PointAction, Warn } from '../../core';
import type { Engine } from '../../engine';
import {
  copyElements,
  disposeSpan,
  floatsOf,
  type Module,
  type Parameter,
  type Span,
  type StateBuffer,
  type StateSegment,
  scaleElements,
  zerosIn,
} from '../../nn';
import { adamWRule } from './adamw';
import { adamW8bitRule } from './adamw-8bit';
import { lionRule } from './lion';
import type { HasStates, Optimizer } from './optimizer';
import { namedGroups } from './param-groups';
import { keepsStatesOnHost, type OptimizerPlacement, RuleOptimizer } from './rule-optimizer';
import { cutByKind, slicesIn } from './segment-cuts';
import { sgdRule } from './sgd';
import { heldBy } from './update-counts';
import type { UpdateRule } from './update-rule';

/**
 * Makes a config's optimizer; `offload` says whether the optimizer's states are on the host. If the config has groups, they
 * name parameters of `named`. `warnOfMissing` gets a warning about parameters without gradients. Throws: CONFIG for settings that contradict each other.
 */
export function createOptimizer(
  engine: Engine,
  model: HasStates,
  config: OptimizerConfig,
  offload: OffloadConfig,
  named = model as Module, // a model, if groups are named
  warnOfMissing?: Warn,
): Optimizer {
  const groups = config.groups.length === 0 ? undefined : namedGroups(named, config.groups);
  const placement: OptimizerPlacement = { onHost: offload.optimizer, groups, warnOfMissing };
  const rule = ruleOf(config);
  const create = (of: HasStates): Optimizer => new RuleOptimizer(engine, of, rule, config.lr, placement);
  return config.delayedUpdate ? new DelayedUpdate(engine, model, placement, create) : create(model);
}

function ruleOf(config: OptimizerConfig): UpdateRule {
  switch (config.kind) {
    case 'adamW':
      return adamWRule(config);
    case 'adam':
      return adamWRule(config, false);
    case 'adamW8bit':
      return adamW8bitRule(config);
    case 'sgd':
      return sgdRule(config);
    case 'lion':
      return lionRule(config);
    default:
      return config.kind satisfies never;
  }
}

/** The name of the additional state, which is the clipped gradient of the last step. */
const PENDING = 'pending_grad';

/**
 * Each step applies the gradients of the previous step. The first step applies no gradients, and the gradients of a run's last
 * step are never applied. Waiting gradients are copies ('grad.shard' or 'grad.full' in ledgers), on the host if the states are
 * on the host. So between backward and update, the gradients of two steps are in memory. Checkpoints contain the waiting
 * gradients as 'pending_grad'.
 * Source: ZeRO-Offload (Ren et al. 2021), section 5.2 (one-step delayed parameter update). Here, updates are delayed from the
 * first step on.
 */
class DelayedUpdate implements Optimizer {
  readonly #engine: Engine;
  readonly #model: HasStates;
  readonly #placement: OptimizerPlacement;
  readonly #inner: Optimizer;
  readonly #waiting = new Map<StateBuffer, WaitingBuffer>();
  #steps = 0;

  /**
   * `createInner` makes the inner optimizer. The argument of `createInner` is `model` with the gradients of the
   * previous step.
   */
  constructor(
    engine: Engine,
    model: HasStates,
    placement: OptimizerPlacement,
    createInner: (model: HasStates) => Optimizer,
  ) {
    this.#engine = engine;
    this.#model = model;
    this.#placement = placement;
    this.#inner = createInner({ states: () => model.states().map((buffer) => this.#waitingOf(buffer)) });
  }

  get lr(): number {
    return this.#inner.lr;
  }

  set lr(lr: number) {
    this.#inner.lr = lr;
  }

  get paramGroups(): Optimizer['paramGroups'] {
    return this.#inner.paramGroups;
  }

  get steps(): number {
    return this.#steps;
  }

  get stepsLeftOut(): Readonly<Record<string, number>> {
    return this.#inner.stepsLeftOut;
  }

  get updatedFrozen(): readonly string[] {
    return this.#inner.updatedFrozen;
  }

  get leftOutNext(): readonly string[] {
    return this.#steps === 0
      ? []
      : this.#model.states().flatMap((buffer) => this.#waitingOf(buffer).absent());
  }

  get stateNames(): readonly string[] {
    return [...this.#inner.stateNames, PENDING];
  }

  isExact(name: string): boolean {
    return name === PENDING || this.#inner.isExact(name);
  }

  step(gradScale = 1, action?: PointAction): void {
    if (this.#steps > 0) this.#inner.step(1, action);
    this.#steps++;
    const states = new Set(this.#model.states());
    for (const buffer of states) this.#waitingOf(buffer).take(gradScale);
    // A parameter that was frozen has no waiting gradient when it trains again.
    for (const [buffer, waiting] of this.#waiting) if (!states.has(buffer)) waiting.release();
  }

  zeroGrad(): void {
    for (const buffer of this.#model.states()) buffer.zeroGrad();
  }

  readState(buffer: StateBuffer, name: string, offset = 0, length = buffer.size - offset): Float32Array {
    const waiting = this.#waitingOf(buffer);
    if (name === PENDING) return waiting.read(offset, length);
    return this.#inner.readState(waiting, name, offset, length);
  }

  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void {
    const waiting = this.#waitingOf(buffer);
    if (name === PENDING) waiting.write(offset, values);
    else this.#inner.writeState(waiting, name, offset, values);
  }

  restore(...[steps, leftOut, updatedFrozen, leftOutNext = []]: Parameters<Optimizer['restore']>): void {
    this.#steps = steps;
    this.#inner.restore(Math.max(0, steps - 1), leftOut, updatedFrozen);
    for (const buffer of this.#model.states()) this.#waitingOf(buffer).leaveOut(new Set(leftOutNext));
  }

  release(buffer: StateBuffer): void {
    const waiting = this.#waitingOf(buffer);
    this.#inner.release(waiting);
    waiting.release();
    this.#waiting.delete(buffer);
  }

  dispose(): void {
    for (const waiting of this.#waiting.values()) waiting.release();
    this.#waiting.clear();
    this.#inner.dispose();
  }

  #waitingOf(buffer: StateBuffer): WaitingBuffer {
    let waiting = this.#waiting.get(buffer);
    if (waiting === undefined) {
      waiting = new WaitingBuffer(this.#engine, buffer, keepsStatesOnHost(buffer, this.#placement));
      this.#waiting.set(buffer, waiting);
    }
    return waiting;
  }
}

/** A state buffer whose gradient is the waiting gradient. */
class WaitingBuffer implements StateBuffer {
  readonly #engine: Engine;
  readonly #buffer: StateBuffer;
  readonly #onHost: boolean;
  #held: Span | null = null;
  /** The parameters that had a gradient; null if these are not known, and all parameters then count. */
  #present: ReadonlySet<Parameter> | null = null;

  constructor(engine: Engine, buffer: StateBuffer, onHost: boolean) {
    this.#engine = engine;
    this.#buffer = buffer;
    this.#onHost = onHost;
  }

  get name(): string {
    return this.#buffer.name;
  }

  get module(): string {
    return this.#buffer.module;
  }

  get size(): number {
    return this.#buffer.size;
  }

  get shardGroup(): StateBuffer['shardGroup'] {
    return this.#buffer.shardGroup;
  }

  get isLocal(): boolean {
    return this.#buffer.isLocal;
  }

  get slices(): StateBuffer['slices'] {
    return this.#buffer.slices;
  }

  segments(): readonly StateSegment[] {
    const held = this.#held;
    return this.#buffer.segments().flatMap((segment) => {
      const parts = cutByKind(this, segment, (parameter) => this.#present?.has(parameter) !== false);
      return parts.map(({ part, kind }) => {
        return { ...part, grad: held !== null && kind ? { ...held, offset: part.offset } : null };
      });
    });
  }

  zeroGrad(): void {
    this.#buffer.zeroGrad();
  }

  updated(): void {
    this.#buffer.updated();
  }

  /** Replaces the waiting gradient by the buffer's current gradient times a factor. */
  take(factor: number): void {
    const segments = this.#buffer.segments().filter(({ grad }) => grad !== null);
    const slices = segments.flatMap((segment) => slicesIn(this, segment));
    this.#present = new Set(slices.map(({ parameter }) => parameter));
    if (segments.length === 0) {
      this.release();
      return;
    }
    const held = this.#hold();
    // A slice without a gradient has none that waits, so that checkpoints do not have one that was applied before.
    if (this.#engine.hasValues && segments.every(({ length }) => length < this.size))
      floatsOf(this.#engine, held, this.size).fill(0);
    for (const { grad, offset, length } of segments)
      if (grad !== null) copyElements(this.#engine, grad, { ...held, offset }, length);
    if (factor !== 1) scaleElements(this.#engine, held, factor, this.size);
  }

  read(offset: number, length: number): Float32Array {
    if (this.#held === null) return new Float32Array(length);
    return floatsOf(this.#engine, { ...this.#held, offset }, length).slice();
  }

  write(offset: number, values: Float32Array): void {
    this.#present = null;
    floatsOf(this.#engine, { ...this.#hold(), offset }, values.length).set(values);
  }

  /** Returns the names of the parameters on this rank that have no waiting gradient. */
  absent(): string[] {
    const present = this.#held === null ? new Set<Parameter>() : this.#present;
    return heldBy([this]).flatMap((parameter) => (present?.has(parameter) === false ? parameter.name : []));
  }

  /** Gives all parameters but these a waiting gradient, after a load. */
  leaveOut(names: ReadonlySet<string>): void {
    this.#present = new Set(heldBy([this]).filter(({ name }) => !names.has(name)));
    if (this.#present.size === 0) this.release();
  }

  dispose(): void {
    this.release();
    this.#buffer.dispose();
  }

  /** Frees the waiting gradient. */
  release(): void {
    if (this.#held !== null) disposeSpan(this.#held);
    this.#held = null;
  }

  #hold(): Span {
    const { shardGroup, module, size } = this.#buffer;
    const tag = { cause: shardGroup === null ? 'grad.full' : 'grad.shard', module } as const;
    this.#held ??= zerosIn(this.#onHost ? 'host' : 'device', this.#engine, size, tag);
    return this.#held;
  }
}
