import { ConfigError, ShardlabError } from '../../../core';
import * as tf from '../../../core/tf';
import { Module, type Parameter } from '../../../nn';
import { groupRates, type Optimizer, setRates } from '../../../sharding';
import type { StateDictType } from '../save/save-layout';
import { checkStateDictType } from '../save/save-plan';
import { exchange, type Ranks, together } from '../state/agreement';
import { wholeShapeOf, wholeSizeOf } from '../state/parts';
import { buffersOf, heldRanges, sharePlacement } from '../state/placement';
import { commonRanges, type Range, totalLength, withoutRanges } from '../state/ranges';
import { asNumbers, asStored, VALUES } from '../state/state-access';
import { accessOf, hasStates, stepCountsOf, storedLists } from '../state/training-state';
import { type ArraySlice, type DictArray, heldPart, requireFit } from './fit';

/** A model's parameters and persistent buffers by full name. */
export type ModelStateDict = ReadonlyMap<string, DictArray>;

/** An optimizer's states by parameter name and state name, as in FSDP.optim_state_dict. */
export interface OptimStateDict {
  readonly state: ReadonlyMap<string, Readonly<Record<string, DictArray>>>;
  /** A list with one entry. If the optimizer has several groups, `lrs` has the learning rate of each group. */
  readonly param_groups: readonly [
    {
      readonly lr: number;
      readonly lrs?: readonly number[] | undefined;
      readonly steps: number;
      /** The number of steps without a gradient, by the parameter's name; only parameters that had such steps are listed. */
      readonly stepsLeftOut?: Readonly<Record<string, number>>;
      /** The frozen parameters that were updated before; omitted if there are none. */
      readonly updatedFrozen?: readonly string[] | undefined;
      /** The parameters that a delayed update leaves out in the next step; omitted if there are none. */
      readonly leftOutNext?: readonly string[] | undefined;
      readonly params: readonly string[];
    },
  ];
}

/** The optimizer states of this rank's elements, which `loadOptimState` writes. */
export interface LocalOptimState {
  readonly lr: number;
  readonly lrs?: readonly number[] | undefined;
  readonly steps: number;
  readonly stepsLeftOut?: Readonly<Record<string, number>> | undefined;
  readonly updatedFrozen?: readonly string[] | undefined;
  readonly leftOutNext?: readonly string[] | undefined;
  readonly states: readonly {
    readonly parameter: string;
    readonly state: string;
    readonly slice: ArraySlice;
  }[];
}

/** Options of state dicts. */
export interface StateDictOptions {
  /** If true, only rank 0 gets a FULL dict, and other ranks get an empty dict. Default false. Source: FullStateDictConfig. */
  readonly rank0Only?: boolean;
}

/**
 * Makes and loads state dicts of models and optimizers, with torch's function names. `stateDict` and `optimStateDict` are
 * collectives, which every rank must call.
 */
export class StateDicts {
  readonly #ranks: Ranks;
  readonly #types = new WeakMap<
    Module,
    { readonly type: StateDictType; readonly options: StateDictOptions }
  >();

  constructor(ranks: Ranks) {
    this.#ranks = ranks;
  }

  /**
   * Runs `work`. Until `work` has ended (also after an await), dicts of `model` have this type; then they have the earlier type
   * again.
   * Source: FSDP.state_dict_type. Throws: CONFIG for LOCAL_STATE_DICT.
   */
  stateDictType<T>(model: Module, type: StateDictType, work: () => T, options: StateDictOptions = {}): T {
    checkStateDictType(type);
    const before = this.#types.get(model);
    const restore = (): void => {
      if (before === undefined) this.#types.delete(model);
      else this.#types.set(model, before);
    };
    this.#types.set(model, { type, options });
    let result: T;
    try {
      result = work();
    } catch (error) {
      restore();
      throw error;
    }
    if (!(result instanceof Promise)) {
      restore();
      return result;
    }
    // `finally` of a promise returns a promise of the same value, so the type is still T.
    return result.finally(restore) as T;
  }

  /** Returns the type of the model's dicts. Source: FSDP.get_state_dict_type. */
  getStateDictType(model: Module): StateDictType {
    return this.#types.get(model)?.type ?? 'FULL_STATE_DICT';
  }

  /**
   * Returns the model's parameters and persistent buffers. Throws: COLLECTIVE_MISMATCH or COLLECTIVE_MISSING if some rank does
   * not call this function.
   */
  stateDict(model: Module): ModelStateDict {
    const name = 'FSDP.stateDict()';
    this.#callTogether(name, model);
    return this.#arrays(name, model, null, VALUES);
  }

  /**
   * Loads parameters from a FULL dict, or from slices that cover this rank's chunks. Throws: SHAPE, with the names of all
   * parameters that do not fit.
   */
  loadStateDict(model: Module, dict: ModelStateDict): void {
    const named = [...model.namedState()];
    const access = accessOf({ engine: this.#ranks.engine, model, optimizer: null });
    const wanted = new Map(named.map(([name, parameter]) => [name, wholeShapeOf(parameter)]));
    requireFit('the state dict does not fit the model', wanted, dict);
    const writes = heldPart(named, dict, 'the state dict');
    for (const { parameter, slice } of writes) {
      const dtype = named[parameter]?.[1].dtype ?? 'float32';
      access.write({ parameter, state: VALUES }, rangeOf(slice), asStored(dtype, slice.values));
    }
    for (const buffer of buffersOf(named.map(([, parameter]) => parameter))) buffer.updated();
  }

  /**
   * Returns the optimizer's states by parameter name. This function is a collective, which every rank must call.
   * Source: FSDP.optim_state_dict. Throws: COLLECTIVE_MISMATCH, COLLECTIVE_MISSING; CONFIG for arguments in another order.
   */
  optimStateDict(model: Module, optimizer: Optimizer): OptimStateDict {
    const name = 'FSDP.optimStateDict()';
    requireOrder(name, 'model, optimizer', model, optimizer);
    this.#callTogether(name, model);
    const counts = stepCountsOf(this.#ranks, name, optimizer);
    const { stepsLeftOut, updatedFrozen: frozen } = counts;
    const byState = optimizer.stateNames.map((state) => {
      return [state, this.#arrays(name, model, { optimizer, frozen }, state)] as const;
    });
    const params = trainableOf(model).map(([key]) => key);
    const state = new Map<string, Record<string, DictArray>>();
    for (const [stateName, arrays] of byState) {
      for (const [key, array] of arrays) state.set(key, { ...state.get(key), [stateName]: array });
    }
    const { lr, steps } = optimizer;
    const group = { lr, lrs: groupRates(optimizer), steps, stepsLeftOut, params, ...storedLists(counts) };
    return { state, param_groups: [group] };
  }

  /**
   * Returns the parts of an optimizer's dict that belong to this rank's chunks of the model, for `loadOptimState`.
   * Source: FSDP.optim_state_dict_to_load, with the argument order of torch 2.1 and later.
   * Throws: SHAPE, with the names of all parameters that do not fit; CONFIG for arguments in another order.
   */
  optimStateDictToLoad(model: Module, optimizer: Optimizer, dict: OptimStateDict): LocalOptimState {
    requireOrder('FSDP.optimStateDictToLoad()', 'model, optimizer, dict', model, optimizer);
    const [{ lr, lrs, steps, stepsLeftOut, updatedFrozen, leftOutNext }] = dict.param_groups;
    const named = trainableOf(model, updatedFrozen);
    const wanted = new Map(named.map(([name, parameter]) => [name, wholeShapeOf(parameter)]));
    const states = optimizer.stateNames.flatMap((state) => {
      const arrays = new Map<string, DictArray>();
      for (const [name, { [state]: array }] of dict.state) if (array !== undefined) arrays.set(name, array);
      requireFit(`the optimizer's ${state} does not fit the model`, wanted, arrays);
      return heldPart(named, arrays, `the optimizer's ${state}`).map(({ parameter, slice }) => {
        return { parameter: named[parameter]?.[0] ?? '', state, slice };
      });
    });
    return { lr, lrs, steps, stepsLeftOut, updatedFrozen, leftOutNext, states };
  }

  /** Writes the result of `optimStateDictToLoad` into the optimizer. Source: Optimizer.load_state_dict. */
  loadOptimState(model: Module, optimizer: Optimizer, local: LocalOptimState): void {
    const places = new Map([...model.namedState().keys()].map((name, place) => [name, place]));
    const access = accessOf({ engine: this.#ranks.engine, model, optimizer });
    for (const { parameter, state, slice } of local.states) {
      access.write({ parameter: places.get(parameter) ?? -1, state }, rangeOf(slice), slice.values);
    }
    setRates(optimizer, local.lr, local.lrs);
    optimizer.restore(local.steps, local.stepsLeftOut, local.updatedFrozen, local.leftOutNext);
  }

  /** Checks that all ranks call the same function with the same arguments, before any values are sent. */
  #callTogether(name: string, model: Module): void {
    const own = JSON.stringify({ numParams: model.numParams(), ...this.#types.get(model) });
    const all = exchange(this.#ranks, name, own);
    const unequalRank = all.findIndex((each) => each !== all[0]);
    if (unequalRank < 0) return;
    throw new ShardlabError(
      'COLLECTIVE_MISMATCH',
      `${name}: rank 0 calls it with ${all[0]}, rank ${unequalRank} with ${all[unequalRank]}; all ranks must have the same model and settings`,
    );
  }

  /** Returns one state (the values, or a state of the optimizer) of all parameters that have this state. */
  #arrays(
    name: string,
    model: Module,
    states: { readonly optimizer: Optimizer; readonly frozen: readonly string[] } | null,
    state: string,
  ): Map<string, DictArray> {
    const { engine, group } = this.#ranks;
    const { type, options } = this.#types.get(model) ?? { type: 'FULL_STATE_DICT', options: {} };
    const named = [...model.namedState()];
    const parameters = named.map(([, parameter]) => parameter);
    const access = accessOf({ engine, model, optimizer: states?.optimizer ?? null });
    const held = heldRanges(parameters);
    const placement = type === 'FULL_STATE_DICT' ? sharePlacement(this.#ranks, held, named.length) : null;
    const arrays = new Map<string, DictArray>();
    named.forEach(([key, namedParameter], parameter) => {
      const { dtype } = namedParameter;
      const shape = wholeShapeOf(namedParameter);
      if (states !== null && !hasStates(namedParameter, states.frozen)) return;
      const own = held
        .filter((range) => range.parameter === parameter)
        .map((range) => ({
          start: range.start,
          values: asNumbers(dtype, access.read({ parameter, state }, range)),
        }));
      if (placement === null) {
        arrays.set(key, { shape, slices: own });
        return;
      }
      const holders = placement.map((ranges) => ranges[parameter] ?? []);
      const values = this.#whole(name, holders, wholeSizeOf(namedParameter), own);
      if (options.rank0Only !== true || group.rank === 0)
        arrays.set(key, { shape, slices: [{ start: 0, values }] });
    });
    return arrays;
  }

  /** Gathers one array from the ranks; each element comes from the first rank that has the element. */
  #whole(
    name: string,
    holders: readonly (readonly Range[])[],
    size: number,
    own: readonly ArraySlice[],
  ): Float32Array {
    const { engine, group } = this.#ranks;
    const values = new Float32Array(size);
    for (const slice of own) values.set(slice.values, slice.start);
    if (holders.every((held) => totalLength(held) === size)) return values;
    const tag = { cause: 'comm', module: '' } as const;
    const tensor = engine.tagged(tag, () => tf.tensor(values, [size], 'float32'));
    const gathered = engine.allocate([size], 'float32', tag);
    try {
      let left: readonly Range[] = [{ start: 0, length: size }];
      const taken = holders.map((held) => {
        const mine = commonRanges(left, held);
        left = withoutRanges(left, held);
        return mine;
      });
      const piecesOf = (whole: tf.Tensor, ranges: readonly Range[] = []) =>
        ranges.map(({ start, length }) => ({ tensor: whole, offset: start, length }));
      const input = piecesOf(tensor, taken[group.rank]);
      const outputs = taken.map((ranges) => piecesOf(gathered, ranges));
      together(name, () => group.allGatherPieces(input, outputs, { cause: 'control', module: name }).wait());
      return Float32Array.from(gathered.dataSync<'float32'>());
    } finally {
      tensor.dispose();
      gathered.dispose();
    }
  }
}

function rangeOf({ start, values }: ArraySlice): Range {
  return { start, length: values.length };
}

/** Returns the parameters of which an optimizer has states. */
function trainableOf(model: Module, updatedFrozen: readonly string[] = []): [string, Parameter][] {
  return [...model.namedParameters()].filter(([, parameter]) => hasStates(parameter, updatedFrozen));
}

/** Checks the order of the arguments, which torch changed in version 2.1. Throws: CONFIG, with the right order. */
function requireOrder(name: string, order: string, model: unknown, optimizer: unknown): void {
  const isOptimizer = typeof optimizer === 'object' && optimizer !== null && 'stateNames' in optimizer;
  if (model instanceof Module && isOptimizer) return;
  throw new ConfigError(
    `${name} takes (${order}), as torch does since 2.1; older versions had the dict or the optimizer first`,
  );
}
