import { nearest } from '../../config';
import {
  type Bytes,
  ConfigError,
  firstNames,
  type PointAction,
  type Seconds,
  type Tag,
  type Warn,
} from '../../core';
import type * as tf from '../../core/tf';
import { type Engine, type HostArray, undone } from '../../engine';
import { isOnHost, Module, type Parameter, type Span, type StateBuffer, type StateSegment } from '../../nn';
import { updateAsAsked } from './asked-update';
import { GradientWatch } from './gradient-watch';
import type { HasStates, Optimizer } from './optimizer';
import { type CommonOptions, checkedOptions } from './optimizer-options';
import { type ParameterGroup, paramGroup } from './param-groups';
import { cutByKind, slicesIn } from './segment-cuts';
import { UpdateCounts } from './update-counts';
import {
  type BufferState,
  deviceStates,
  type FlatArray,
  hostStates,
  type ParamGroup,
  type StateMemory,
  type UpdateRule,
} from './update-rule';

/** The maximum size of a copied chunk, in bytes; values and gradients have separate chunks. */
const CHUNK_BYTES: Bytes = 2 ** 20;
const ITEM_BYTES = 4;

/** A segment whose parameters are all in one group and had the same number of updates. */
export interface SteppedSegment extends StateSegment {
  /** The number of updates, including this one; for bias correction. */
  readonly step: number;
  /** The group, with its rate and settings. */
  readonly group: ParamGroup;
}

/** The module and the granularity of the state buffer that is updated. */
interface Updated {
  readonly module: string;
  /** Chunks end at multiples of this number of elements. */
  readonly granularity: number;
}

/**
 * Runs updates on the host. Values and gradients on the device are copied to the host in chunks, and updated values are
 * copied back; ledgers count the chunks on the host under the cause 'comm' of the module. Source: ZeRO-Offload (Ren et al.
 * 2021), section 4.1.
 */
function updateOnHost(
  engine: Engine,
  state: BufferState<HostArray>,
  { module, granularity }: Updated,
  segments: readonly SteppedSegment[],
  gradScale: number,
): void {
  const { host } = engine;
  const chunk = Math.max(1, Math.floor(CHUNK_BYTES / ITEM_BYTES / granularity)) * granularity;
  const rooms = new Map<'values' | 'grad', HostArray>();
  /** Returns the span's array if it is on the host; otherwise an array for copies of `length` elements. */
  const arrayFor = (content: 'values' | 'grad', span: Span, length: number): HostArray => {
    if (isOnHost(span)) return span.host;
    const there = rooms.get(content);
    if (there !== undefined && there.length >= length) return there;
    there?.dispose();
    const made = host.allocate(length, { cause: 'comm', module });
    rooms.set(content, made);
    return made;
  };
  const updateSegment = ({ values, grad, offset, length, step, group }: SteppedSegment): void => {
    const isThere = isOnHost(values) && grad !== null && isOnHost(grad);
    // Empty segments on the host are updated too, as empty segments are in an update on the device.
    if (grad === null || (length === 0 && !isThere)) return;
    let from = 0;
    do {
      const end = Math.floor((offset + from) / granularity) * granularity + chunk - offset;
      const to = isThere ? length : Math.min(length, end);
      const size = to - from;
      const param = arrayFor('values', values, Math.min(length, chunk));
      const gradient = arrayFor('grad', grad, Math.min(length, chunk));
      const offsets = {
        param: isOnHost(values) ? values.offset + from : 0,
        grad: isOnHost(grad) ? grad.offset + from : 0,
      };
      if (!isOnHost(values)) host.fromDevice(values.tensor, values.offset + from, size, param, 0);
      if (!isOnHost(grad)) host.fromDevice(grad.tensor, grad.offset + from, size, gradient, 0);
      const range = { offset: offset + from, length: size, step, gradScale, ...group };
      state.update({ param, grad: gradient, offsets, ...range });
      if (!isOnHost(values)) host.toDevice(param, 0, size, values.tensor, values.offset + from);
      from = to;
    } while (from < length);
  };
  const release = (): void => {
    for (const room of rooms.values()) room.dispose();
  };
  undone(engine, release, () => segments.forEach(updateSegment));
}

const MOST_WARNINGS = 3;

/**
 * Names the trained parameters that got no gradient in a step. Each is named once, with what to check, because a step may leave
 * out parts of a model on purpose. Experts without tokens and optional modules are not named: a step leaves them out by
 * design. The cost is in steps with a missing gradient only.
 * Source: the error of torch's DistributedDataParallel about "parameters that were not used in producing loss".
 */
class MissingWatch {
  readonly #warn: Warn;
  readonly #named = new WeakSet<Parameter>();
  #missing: Parameter[] = [];
  #numWarnings = 0;
  #hasSpoken = false;

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** Notes the parameters of a buffer whose gradients are zeros because backward did not reach them. */
  lookAtZeros({ slices }: StateBuffer): void {
    for (const { parameter, length } of slices)
      if (parameter.hasOnlyZeros && length > 0) this.note(parameter);
  }

  /** Notes that a parameter has no gradient in this step. */
  note(parameter: Parameter): void {
    if (this.#numWarnings >= MOST_WARNINGS || parameter.isSpare || this.#named.has(parameter)) return;
    this.#missing.push(parameter);
  }

  /** Ends a step, in which at least one parameter had a gradient if `hasUpdated`. */
  end(step: number, hasUpdated: boolean): void {
    const missing = this.#missing.splice(0).filter((parameter) => !isOptional(parameter));
    if (missing.length === 0) return;
    if (!hasUpdated) {
      if (!this.#hasSpoken) this.#warn(nothingUpdated(step));
      this.#hasSpoken = true;
      return;
    }
    this.#numWarnings++;
    for (const parameter of missing) this.#named.add(parameter);
    const names = missing.map(({ name }) => name || 'a parameter without a module');
    this.#warn(
      `step ${step}: ${firstNames(names)} got no gradient on this rank, so ${names.length === 1 ? 'it does' : 'they do'} not train: the loss does not ` +
        'depend on them. Check that forward uses them, that what they compute reaches the loss, and that no value on the way was read ' +
        '(dataSync, array) and made into a new tensor. If the step leaves them out on purpose, such as the head of another task, all is ' +
        'well. For parameters that never train, set requiresGrad = false before the model is wrapped. Each parameter is named once',
    );
  }
}

function nothingUpdated(step: number): string {
  return (
    `step ${step} changed nothing, because no parameter of this optimizer has a gradient on this rank. Call loss.backward() (or pass.backward()) ` +
    'before step() and zeroGrad() after step(), and give the optimizer the model that computes the loss. This warning appears once'
  );
}

/** Whether the parameter is in a module that a step may skip. */
function isOptional(parameter: Parameter): boolean {
  return [...parameter.users].some(
    ({ root }) =>
      root instanceof Module &&
      root.modules().some((module) => module.isOptional && module.parameters().includes(parameter)),
  );
}

/** Settings of an optimizer besides its rule: whether its states are on the host, its groups, and its callbacks. */
export interface OptimizerPlacement {
  /** Whether states are stored and updates run on the host, even for parameters on the device. For parameters on the host,
   * both are always on the host. */
  readonly onHost?: boolean;
  /** The groups of parameters. Default: one group of all parameters. Parameters in no group are not updated. */
  readonly groups?: readonly ParameterGroup[] | undefined;
  /** Is called with a warning about the first gradient that is NaN or infinite. If undefined, gradients are not checked. */
  readonly warn?: Warn | undefined;
  /** Is called with a warning about parameters that got no gradient in a step. If undefined, they are not named. */
  readonly warnOfMissing?: Warn | undefined;
  /** Is called before each step, and says how the step is done. */
  readonly steps?: (() => PointAction | undefined) | undefined;
  /** Is called at the end of each step, with the time at which the step began. */
  readonly stepped?: ((optimizer: Optimizer, began: Seconds) => void) | undefined;
}

type PlacedState =
  | { readonly place: 'device'; readonly state: BufferState<tf.Tensor> }
  | { readonly place: 'host'; readonly state: BufferState<HostArray> };

/** Whether a buffer's states are on the host, because of the setting or because the buffer itself is on the host. */
export function keepsStatesOnHost(buffer: StateBuffer, { onHost = false }: OptimizerPlacement): boolean {
  return onHost || buffer.segments().some(({ values }) => isOnHost(values));
}

/**
 * Updates all segments of all buffers by a rule, on the device or on the host. For an update on the host, segments on the
 * device are copied to the host and back in chunks; segments on the host are updated in place.
 */
export class RuleOptimizer implements Optimizer {
  readonly paramGroups: readonly ParamGroup[];
  /** The index of each parameter's group, and the index of the group of all other parameters (-1: there is none). */
  readonly #groupOf = new Map<Parameter, number>();
  readonly #others: number;
  readonly #engine: Engine;
  readonly #model: HasStates;
  readonly #rule: UpdateRule;
  readonly #placement: OptimizerPlacement;
  readonly #watch: GradientWatch | null;
  readonly #missing: MissingWatch | null;
  readonly #states = new Map<StateBuffer, PlacedState>();
  readonly #counts = new UpdateCounts();

  constructor(engine: Engine, model: HasStates, rule: UpdateRule, lr: number, placement: OptimizerPlacement) {
    this.#engine = engine;
    this.#model = model;
    this.#rule = rule;
    this.#placement = placement;
    this.#watch = placement.warn === undefined ? null : new GradientWatch(engine, placement.warn);
    const { warnOfMissing } = placement;
    this.#missing = warnOfMissing === undefined || !engine.hasValues ? null : new MissingWatch(warnOfMissing);
    const groups = placement.groups ?? [{ parameters: null, own: {} }];
    this.paramGroups = groups.map(({ own }) => paramGroup(own, lr, rule.settings));
    this.#others = groups.findIndex(({ parameters }) => parameters === null);
    for (const [i, { parameters }] of groups.entries()) {
      for (const parameter of parameters ?? []) this.#groupOf.set(parameter, i);
    }
    for (const buffer of rule.check === undefined ? [] : model.states()) rule.check?.(buffer);
  }

  get lr(): number {
    return this.paramGroups[0]?.lr ?? 0;
  }

  set lr(lr: number) {
    for (const group of this.paramGroups) group.lr = lr;
  }

  get steps(): number {
    return this.#counts.steps;
  }

  get stepsLeftOut(): Readonly<Record<string, number>> {
    return this.#counts.leftOut(this.#model.states());
  }

  get updatedFrozen(): readonly string[] {
    return this.#counts.updatedFrozen();
  }

  get leftOutNext(): readonly string[] {
    return [];
  }

  get stateNames(): readonly string[] {
    return this.#rule.stateNames;
  }

  isExact(): boolean {
    return this.#rule.granularity === 1;
  }

  step(gradScale = 1, action: PointAction | undefined = this.#placement.steps?.()): void {
    const began = this.#engine.clock.now();
    updateAsAsked(this.#engine, this.#model.states(), action, () => this.#step(gradScale));
    this.#placement.stepped?.(this, began);
  }

  #step(gradScale: number): void {
    this.#counts.steps++;
    this.#watch?.begin(this.steps);
    const { maximize, granularity } = this.#rule;
    const factor = maximize ? -gradScale : gradScale;
    let hasUpdated = false;
    for (const buffer of this.#model.states()) {
      const segments = buffer.segments().flatMap((segment) => this.#stepped(buffer, segment));
      this.#missing?.lookAtZeros(buffer);
      if (segments.length === 0) continue;
      hasUpdated = true;
      this.#watch?.look(buffer, segments, this.steps);
      const placed = this.#stateOf(buffer);
      if (placed.place === 'device') updateOnDevice(placed.state, segments, factor);
      else updateOnHost(this.#engine, placed.state, { module: buffer.module, granularity }, segments, factor);
      buffer.updated();
    }
    this.#missing?.end(this.steps, hasUpdated);
  }

  zeroGrad(): void {
    for (const buffer of this.#model.states()) buffer.zeroGrad();
  }

  readState(buffer: StateBuffer, name: string, offset = 0, length = buffer.size - offset): Float32Array {
    this.#requireName(name);
    return this.#states.get(buffer)?.state.read(name, offset, length) ?? new Float32Array(length);
  }

  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void {
    this.#requireName(name);
    this.#stateOf(buffer).state.write(name, offset, values);
  }

  restore(
    steps: number,
    leftOut: Readonly<Record<string, number>> = {},
    updatedFrozen: readonly string[] = [],
  ): void {
    this.#counts.restore(this.#model.states(), { steps, leftOut, updatedFrozen });
  }

  release(buffer: StateBuffer): void {
    this.#states.get(buffer)?.state.dispose();
    this.#states.delete(buffer);
  }

  dispose(): void {
    for (const { state } of this.#states.values()) state.dispose();
    this.#states.clear();
  }

  /**
   * Returns the segment with its group and its number of updates (for bias correction). If group or number differ between the
   * segment's parameters, returns several parts of the segment. Returns nothing for a segment without a gradient, and for
   * parameters in no group.
   */
  #stepped(buffer: StateBuffer, segment: StateSegment): SteppedSegment[] {
    if (segment.grad === null) {
      for (const { parameter, length } of slicesIn(buffer, segment)) {
        const isTrained = parameter.requiresGrad && (this.#groupOf.get(parameter) ?? this.#others) >= 0;
        if (length > 0 && isTrained) this.#missing?.note(parameter);
      }
      return [];
    }
    const [first] = this.paramGroups;
    const isEven = this.#counts.update(slicesIn(buffer, segment));
    if (isEven && this.#groupOf.size === 0 && first !== undefined) {
      return [{ ...segment, step: this.steps, group: first }];
    }
    // A kind encodes two numbers: the skipped steps and the index of the group. Parameters in no group get the index after the
    // last group.
    const count = this.paramGroups.length + 1;
    const indexOf = (parameter: Parameter): number => this.#groupOf.get(parameter) ?? this.#others;
    const kindOf = (parameter: Parameter): number =>
      this.#counts.missedBy(parameter) * count + ((indexOf(parameter) + count) % count);
    return cutByKind(buffer, segment, kindOf).flatMap(({ part, kind }) => {
      const group = this.paramGroups[kind % count];
      return group === undefined ? [] : [{ ...part, step: this.steps - Math.floor(kind / count), group }];
    });
  }

  #stateOf(buffer: StateBuffer): PlacedState {
    const there = this.#states.get(buffer);
    if (there !== undefined) return there;
    const tag: Tag = { cause: 'optimizer', module: buffer.module };
    const create = <T extends FlatArray>(memory: StateMemory<T>): BufferState<T> =>
      this.#rule.createState(memory, buffer.size, tag);
    const made: PlacedState = keepsStatesOnHost(buffer, this.#placement)
      ? { place: 'host', state: create(hostStates(this.#engine)) }
      : // Allocates all arrays of the state, or none if they do not fit.
        { place: 'device', state: this.#engine.allOrNothing(() => create(deviceStates(this.#engine))) };
    this.#states.set(buffer, made);
    return made;
  }

  #requireName(name: string): void {
    const known = this.#rule.stateNames;
    if (known.includes(name)) return;
    const near = nearest(name, known);
    const hint = near === undefined ? `it has ${known.join(', ') || 'none'}` : `did you mean "${near}"?`;
    throw new ConfigError(`the optimizer has no state "${name}"; ${hint}`);
  }
}

/** The class of an optimizer that updates by a rule. */
export type OptimizerClass<Options> = new (
  engine: Engine,
  model: HasStates,
  options?: Options,
  placement?: OptimizerPlacement,
) => RuleOptimizer;

/** Makes a class of optimizers. Its constructor throws: CONFIG for an unknown option and a wrong value. */
export function optimizerClass<Options extends CommonOptions>(
  name: string,
  defaults: Required<Options> & { readonly lr: number },
  ruleOf: (settings: Required<Options>) => UpdateRule,
): OptimizerClass<Options> {
  return class extends RuleOptimizer {
    constructor(
      engine: Engine,
      model: HasStates,
      options: Partial<Options> = {},
      placement: OptimizerPlacement = {},
    ) {
      const settings = checkedOptions(name, options, defaults);
      super(engine, model, ruleOf(settings), settings.lr, placement);
    }
  };
}

function updateOnDevice(
  state: BufferState<tf.Tensor>,
  segments: readonly SteppedSegment[],
  gradScale: number,
): void {
  for (const { values, grad, offset, length, step, group } of segments) {
    if (grad === null) continue;
    const [param, gradient] = [onDevice(values), onDevice(grad)];
    const offsets = { param: param.offset, grad: gradient.offset };
    const range = { offset, length, step, gradScale, ...group };
    state.update({ param: param.tensor, grad: gradient.tensor, offsets, ...range });
  }
}

function onDevice(span: Span): Extract<Span, { readonly tensor: tf.Tensor }> {
  if (!isOnHost(span)) return span;
  throw new ConfigError(
    "The optimizer's states are on the device, but a parameter or its gradient is on the host; " +
      'set offload.parameters before the first step, or make a new optimizer.',
  );
}
