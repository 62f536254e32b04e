import type { TrainConfigInput } from '../../config';
import { type Bytes, withGradients } from '../../core';
import * as tf from '../../core/tf';
import type { MetaEngine } from '../../engine';
import { Module, ModuleListPart, Parameter } from '../../nn';
import type { MetaOwn } from './rank-run';
import type { Traced, TracedSegment, TracedStep } from './traced';

/** A config whose model is a trace, and the functions that repeat the trace in a dry run. */
export interface TracedWork {
  readonly config: TrainConfigInput;
  readonly own: MetaOwn;
}

/**
 * Returns a config without its model, and the trace as the model, data and loss of a dry run.
 *
 * [Note: traced models] A model that ran elsewhere on shapes (a class of Python) is planned as a model of this library is: its
 * trace becomes a tree of modules with the same names and parameters, which strategies shard, gather and checkpoint as any module.
 * The forward of such a module repeats the trace's segments in order. Each segment is one differentiable operation of the
 * parameters that it read. It takes the time of its kernels, allocates what its backward needs, and for a moment the most bytes
 * that the trace held beyond that, so the peak of each segment is the trace's. From segment to segment only one number is passed,
 * which stands for the order; before a block it has the size of the block's input, because a checkpointed block stores its input.
 * Saved float32 values have the unit's declared type, as in a model of this library.
 */
export function tracedWork({ ...config }: TrainConfigInput, traced: Traced): TracedWork {
  const { units } = traced;
  const wrap = units.length === 0 ? 'root' : { modules: [...units] };
  return {
    config: {
      ...config,
      model: { kind: 'own' } as TrainConfigInput['model'], // stands for the trace's model
      data: 'function' as TrainConfigInput['data'],
      parallel: { ...config.parallel, wrap },
    },
    own: {
      parts: ({ engine }) => {
        const trace = new Replay(engine, traced);
        return {
          model: trace.model,
          loss: traced.steps.length > 1 ? (output) => trace.loss(output as tf.Tensor) : null,
          data: () => trace.batch(),
          validation: null,
        };
      },
    },
  };
}

/** The steps of one call of a module. The class keeps them apart from tensors in a call's inputs. */
class Steps {
  readonly list: readonly TracedStep[];

  constructor(list: readonly TracedStep[]) {
    this.list = list;
  }
}

/** A module whose forward repeats the steps of one of its calls. */
class TracedModule extends Module {
  readonly #run: (steps: Steps, x: tf.Tensor) => tf.Tensor;
  readonly #first: Steps;

  /** `first` has the steps of the model's own call, for which nobody gives steps. */
  constructor(run: (steps: Steps, x: tf.Tensor) => tf.Tensor, first: Steps) {
    super();
    this.#run = run;
    this.#first = first;
  }

  forward(x: tf.Tensor, steps: Steps = this.#first): tf.Tensor {
    return this.#run(steps, x);
  }

  addTensor(name: string, tensor: Parameter): void {
    this.addParameter(name, tensor);
  }

  addModule(name: string, module: Module): void {
    this.addChild(name, module);
  }
}

/** Repeats a trace on one engine. */
class Replay {
  readonly #engine: MetaEngine;
  readonly #traced: Traced;
  readonly #modules = new Map<string, Module>();
  readonly #parameters: readonly Parameter[];
  readonly #loss: Steps;

  constructor(engine: MetaEngine, traced: Traced) {
    this.#engine = engine;
    this.#traced = traced;
    const [model, ...loss] = traced.steps;
    const first = new Steps(typeof model === 'object' ? model.steps : []);
    const list = listOf(traced.blocks);
    for (const { name, kind } of traced.modules) {
      const module = name === list ? new ModuleListPart() : new (classNamed(kind))(this.#run, first);
      this.#modules.set(name, module);
      if (name !== '') this.#add(name, module);
    }
    this.#parameters = traced.parameters.map(({ names, shape, trains }) => {
      const parameter = Parameter.deferred(shape, () => ({ fill: () => undefined }));
      parameter.requiresGrad = trains;
      for (const name of names) this.#add(name, parameter);
      return parameter;
    });
    for (const { name, shape, bytes, isFloat } of traced.buffers) {
      const [module, last] = this.#placeOf(name);
      const tensor = isFloat ? tf.zeros([...shape]) : tf.zeros([bytes], 'bool');
      // A module here may have a member with the buffer's name.
      module.registerBuffer(last in module ? `${last}_` : last, tensor, { persistent: false });
    }
    this.#loss = new Steps(loss);
  }

  get model(): Module {
    return this.#modules.get('') as Module; // a trace has the model itself
  }

  loss(output: tf.Tensor): tf.Tensor {
    return this.#run(this.#loss, output);
  }

  /** Makes the tensors of a batch. The first input has the trace's shape, and all together its bytes. */
  batch(): Readonly<Record<string, tf.Tensor>> {
    const { shape, isTokens, bytes } = this.#traced.batch;
    const size = shape.reduce((product, extent) => product * extent, 1);
    const isNarrow = bytes < 4 * size;
    const x = this.#allocate(shape, isTokens ? 'int32' : isNarrow ? 'bool' : 'float32');
    const rest = bytes - size * (isNarrow && !isTokens ? 1 : 4);
    return { x, ...(rest > 0 && { rest: this.#allocate([rest], 'bool') }) };
  }

  readonly #run = (steps: Steps, x: tf.Tensor): tf.Tensor => {
    // The model's own input is its batch, which no segment needs.
    const begin = x.dtype === 'float32' && x.rank <= 1 ? x : this.#allocate([], 'float32');
    return steps.list.reduce<tf.Tensor>((now, step) => {
      if (typeof step === 'number') return this.#segment(this.#traced.segments[step] as TracedSegment, now);
      const module = this.#modules.get(step.module) as TracedModule; // the trace names its own modules
      return module.apply(now, new Steps(step.steps));
    }, begin);
  };

  #segment(segment: TracedSegment, x: tf.Tensor): tf.Tensor {
    const { savedFloats, savedBytes, carried, keepsInput } = segment;
    const read = segment.params.map((index) => this.#parameters[index] as Parameter);
    const trained = read.filter(({ requiresGrad }) => requiresGrad);
    return withGradients([x, ...trained.map(({ tensor }) => tensor)], (save) => {
      this.#work(segment.forward, segment.forwardBytes);
      save([
        ...(savedFloats > 0 ? [this.#allocate([savedFloats], 'float32')] : []),
        ...(savedBytes > 0 ? [this.#allocate([savedBytes], 'bool')] : []),
        ...(keepsInput ? [x] : []),
      ]);
      const [shape, shapes] = [x.shape, trained.map((parameter) => parameter.shape)];
      return {
        value: this.#allocate(carried === 0 ? [] : [carried], 'float32'),
        gradients: () => {
          this.#work(segment.backward, segment.backwardBytes);
          return [shape, ...shapes].map((each) => this.#allocate(each, 'float32'));
        },
      };
    });
  }

  /** Takes the time of kernels, and for a moment a number of bytes. */
  #work(kernels: TracedSegment['forward'], bytes: Bytes): void {
    if (bytes > 0) this.#allocate([Math.ceil(bytes / 4)], 'float32').dispose();
    for (const { attrs = {}, ...kernel } of kernels) this.#engine.charge({ ...kernel, attrs });
  }

  #allocate(shape: readonly number[], dtype: 'float32' | 'int32' | 'bool'): tf.Tensor {
    return this.#engine.allocate(shape, dtype, this.#engine.currentTag);
  }

  #add(name: string, part: Module | Parameter): void {
    const [parent, last] = this.#placeOf(name);
    if (part instanceof Parameter) (parent as TracedModule).addTensor(last, part);
    else if (parent instanceof ModuleListPart) parent.put(last, part);
    else (parent as TracedModule).addModule(last, part);
  }

  /** Returns the module that has a part, and the part's name in it. */
  #placeOf(name: string): readonly [Module, string] {
    const at = name.lastIndexOf('.');
    return [this.#modules.get(name.slice(0, Math.max(0, at))) as Module, name.slice(at + 1)]; // parents come first
  }
}

/** Returns the name of the list that has the blocks; undefined without blocks, and if the model itself is the list. */
function listOf([first = '']: readonly string[]): string | undefined {
  const list = first.slice(0, Math.max(0, first.lastIndexOf('.')));
  return list === '' ? undefined : list;
}

/** Returns a class of modules with a name, which errors show. */
function classNamed(name: string): typeof TracedModule {
  const named = class extends TracedModule {};
  Object.defineProperty(named, 'name', { value: name });
  return named;
}
