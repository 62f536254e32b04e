import { crc32 } from 'node:zlib';
import { STRATEGIES, type TrainConfig } from '../config';
import type * as tf from '../core/tf';
import { undone } from '../engine';
import { buildModel, loadState, Module, type StateDict, withoutAdapters } from '../nn';
import { type ParallelModel, parallelize, type RankContext } from '../sharding';

/** The parts of a trainer that a reference model needs; `group` has all ranks. */
export interface ReferenceContext extends RankContext {
  /** Initial parameters by name; default: values from the config's seed. */
  readonly initialState?: StateDict | undefined;
}

/** A model with the values that the trained model had before the first step. It has no gradients and no optimizer states. */
export interface ReferenceModel {
  /** A text that identifies the values, the same under each strategy; undefined if the trained model has them (adapters). */
  readonly fingerprint: string | undefined;
  /** Returns the logits of ids, with dropout off. The caller disposes them. */
  logits(ids: tf.Tensor): tf.Tensor;
  /** Frees whole parameters that the last forward left. */
  abandon(): void;
  dispose(): void;
}

/**
 * Returns the reference model of a training: with adapters, the trained model itself without them, else a second copy. Source: PEFT's
 * disable_adapter, as TRL's DPOTrainer uses it.
 */
export function referenceOf(context: ReferenceContext, model: Module, config: TrainConfig): ReferenceModel {
  if (config.lora === null) return new CopiedModel(context, config);
  const { engine } = context;
  return {
    fingerprint: undefined,
    logits(ids) {
      const wasTraining = model.training;
      const evaluated = (): tf.Tensor => {
        model.train(false);
        return withoutAdapters(engine, model, () => model.apply(ids) as tf.Tensor); // a language model returns logits
      };
      return undone(engine, () => void model.train(wasTraining), evaluated);
    },
    abandon: () => undefined,
    dispose: () => undefined,
  };
}

/** The name of the second copy, with which the names of its modules begin in ledgers. */
const REFERENCE = 'reference';

/** A module around the second copy. */
class Beside extends Module {
  readonly [REFERENCE]: Module;

  constructor(copy: Module) {
    super();
    this[REFERENCE] = copy;
  }

  forward(ids: tf.Tensor): tf.Tensor {
    return this[REFERENCE].apply(ids) as tf.Tensor; // a language model returns logits
  }
}

/** A second, frozen copy of the model, sharded by the strategy of the trained model. */
class CopiedModel implements ReferenceModel {
  readonly fingerprint: string | undefined;
  readonly #model: Beside;
  readonly #parallel: ParallelModel;
  /** Whether ranks hold only shards of the parameters between two forwards. */
  readonly #isSharded: boolean;

  constructor({ engine, group, observer, initialState }: ReferenceContext, config: TrainConfig) {
    // First values depend on names, and the copy's names begin with 'reference'.
    const named = buildModel(config);
    if (initialState !== undefined) loadState(engine, named, initialState);
    this.fingerprint = engine.hasValues ? fingerprintOf(named) : undefined;
    this.#model = new Beside(buildModel(config)).eval();
    const copy = this.#model[REFERENCE];
    const parameters = copy.namedParameters();
    for (const [name, { source }] of named.namedParameters()) {
      const parameter = parameters.get(name);
      if (source !== null) parameter?.defer(source);
    }
    for (const parameter of parameters.values()) parameter.requiresGrad = false;
    this.#parallel = parallelize(copy, settingsOf(config), { engine, group, observer });
    this.#isSharded = STRATEGIES[config.parallel.strategy].shardedAtRest.includes('parameter');
  }

  logits(ids: tf.Tensor): tf.Tensor {
    try {
      return this.#model[REFERENCE].apply(ids) as tf.Tensor; // a language model returns logits
    } finally {
      this.abandon();
    }
  }

  abandon(): void {
    if (this.#isSharded) this.#parallel.abandon();
  }

  dispose(): void {
    this.#parallel.dispose();
    this.#model.dispose();
  }
}

/** The parts of each parameter, evenly spread, and the values of each part of which a fingerprint is made. */
const PARTS = 8;
const VALUES_PER_PART = 32;

/** Returns the checksum of names, shapes, and a part of the first values of a model whose parameters have no values yet. */
function fingerprintOf(model: Module): string {
  const all = [...model.namedParameters()].flatMap(([name, { shape, size, source }]) => {
    const head = Buffer.from(`${name} ${shape.join()} `);
    const parts = Array.from({ length: PARTS }, (_, part) => {
      const start = Math.floor((part * size) / PARTS);
      const values = new Float32Array(Math.min(VALUES_PER_PART, size - start));
      source?.fill(start, values);
      return Buffer.from(values.buffer);
    });
    return [head, ...parts];
  });
  return crc32(Buffer.concat(all)).toString(16).padStart(8, '0');
}

/** Returns the settings of the copy: those of the trained model, without what is about gradients. */
function settingsOf(config: TrainConfig): TrainConfig {
  return { ...config, parallel: { ...config.parallel, sparseGradients: false, commHook: null } };
}
