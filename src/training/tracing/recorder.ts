import { ConfigError, type DType, tensorsIn } from '../../core';
import * as tf from '../../core/tf';
import {
  listenToKernels,
  type Trace,
  type TracedKernel,
  tfjsState,
  tracing,
  watchHostReads,
} from '../../engine';
import type { Module } from '../../nn';
import { isLayer } from './modules';
import type { Attribute, TracedNode, TracedOperation } from './program';
import { isUsersGradient, userLine } from './user-line';

/** A tensor that a trace has seen. */
export interface SeenValue {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly source:
    | { readonly kind: 'input' | 'parameter'; readonly name: string }
    | { readonly kind: 'constant'; readonly values: readonly number[] }
    | { readonly kind: 'result' };
}

/** What one forward and its loss did. */
export interface RecordedForward {
  readonly values: readonly SeenValue[];
  readonly body: readonly TracedNode[];
  readonly loss: number;
}

/** The tensors that a trace knows before it begins, by name. */
export interface KnownTensors {
  readonly inputs: ReadonlyMap<string, tf.Tensor>;
  readonly model: Module;
}

/** The attributes that say which random numbers are drawn; a program in another language draws others. */
const IGNORED = new Set(['seeds']);

/** Runs `work`, which returns the loss, and returns what it did. Throws: CONFIG with the line of what cannot be traced. */
export function recordForward(known: KnownTensors, work: () => tf.Tensor): RecordedForward {
  const recorder = new Recorder(known);
  const ends = [listenToKernels(recorder), watchHostReads((dataId) => recorder.valuesRead(dataId))];
  try {
    let recorded: RecordedForward | undefined;
    tf.tidy(() => {
      recorded = recorder.result(tracing(recorder, work));
    });
    return recorded as unknown as RecordedForward; // the function above has set it
  } finally {
    for (const end of ends) end();
  }
}

class Recorder implements Trace {
  readonly #values: SeenValue[] = [];
  readonly #ids = new Map<number, number>();
  /** The buffers of tensors whose values depend on inputs or parameters. */
  readonly #depending = new WeakSet<object>();
  readonly #model: Module;
  readonly #root: TracedNode[] = [];
  #body = this.#root;
  /** Above 0, kernels are part of a layer or of an operation that has a name. */
  #hidden = 0;
  #checks = 0;
  #customGradients = 0;

  constructor({ inputs, model }: KnownTensors) {
    this.#model = model;
    for (const [name, tensor] of inputs) this.#add(tensor, { kind: 'input', name });
    for (const [name, parameter] of [...model.namedParameters(), ...model.namedBuffers()])
      this.#add(parameter.tensor, { kind: 'parameter', name });
  }

  result(loss: tf.Tensor): RecordedForward {
    const id = this.#idOf(loss);
    return { values: this.#values, body: this.#root, loss: id };
  }

  module(module: object, inputs: readonly unknown[], run: () => unknown): unknown {
    if (this.#hidden > 0) return run();
    const called = module as Module; // only modules call it
    if (called.root !== this.#model) {
      throw refused(
        `forward calls a ${called.constructor.name} that is not in the model`,
        runningLine(),
        'make it a field of a module of the model',
      );
    }
    const outer = this.#body;
    const body: TracedNode[] = [];
    const line = userLine();
    const ids = tensorsIn(inputs).map((tensor) => this.#idOf(tensor));
    const hides = isLayer(called);
    this.#body = body;
    this.#hidden += hides ? 1 : 0;
    let output: unknown;
    try {
      output = run();
    } finally {
      this.#body = outer;
      this.#hidden -= hides ? 1 : 0;
    }
    const outputs = tensorsIn(output).map((tensor) => this.#outputOf(tensor, hides));
    outer.push({ kind: 'call', module: called.path, inputs: ids, outputs, body, line });
    return output;
  }

  operation(
    name: string,
    { inputs, attrs }: Omit<TracedKernel, 'name' | 'outputs'>,
    work: () => tf.Tensor,
  ): tf.Tensor {
    if (this.#hidden > 0) return work();
    this.#hidden++;
    let output: tf.Tensor;
    try {
      output = work();
    } finally {
      this.#hidden--;
    }
    this.#note(name, inputs, attrs, [output]);
    return output;
  }

  checking<T>(read: () => T): T {
    this.#checks++;
    try {
      return read();
    } finally {
      this.#checks--;
    }
  }

  changesBuffer(name: string): void {
    if (this.#hidden > 0) return;
    throw refused(
      `forward changes the buffer ${name}`,
      runningLine(),
      'only the batch norms of nn change buffers in an exported forward; leave the change out',
    );
  }

  /** Is called when code reads the values of a tensor on the host. */
  valuesRead(dataId: object): void {
    if (this.#hidden > 0 || this.#checks > 0 || !this.#depending.has(dataId)) return;
    throw refused(
      'forward or loss reads the values of a tensor that depends on the batch or on parameters',
      runningLine(),
      'PyTorch code that is written from one trace cannot depend on values: compute with tensors, for example by tf.where or a mask',
    );
  }

  customGradient(run: () => unknown): unknown {
    if (this.#hidden === 0 && isUsersGradient()) {
      throw refused(
        'tf.customGrad has a gradient in JavaScript',
        runningLine(),
        'PyTorch would use its own gradient: write the operation with tf and nn.functional, x.detach() included',
      );
    }
    this.#customGradients++;
    try {
      return run();
    } finally {
      this.#customGradients--;
    }
  }

  kernel(name: string, inputs: object, attrs: object | undefined, outputs: tf.Tensor | tf.Tensor[]): void {
    const results = Array.isArray(outputs) ? outputs : [outputs];
    if (this.#hidden > 0) return;
    // Kernels' inputs are tensors by name, or a list of tensors.
    const tensors = Object.fromEntries(
      Object.entries(inputs as Readonly<Record<string, tf.Tensor>>).filter(
        ([, tensor]) => tensor instanceof tf.Tensor,
      ),
    );
    this.#note(name, tensors, { ...attrs }, results);
  }

  #note(
    name: string,
    inputs: Readonly<Record<string, tf.Tensor>>,
    attrs: Readonly<Record<string, unknown>>,
    outputs: readonly tf.Tensor[],
  ): void {
    const sources = Object.entries(inputs).map(([key, tensor]) => [key, this.#idOf(tensor)] as const);
    const depends = Object.values(inputs).some(({ dataId }) => this.#depending.has(dataId));
    const operation: TracedOperation = {
      kind: 'operation',
      name,
      inputs: Object.fromEntries(sources),
      attrs: attributesOf(attrs),
      outputs: outputs.map((tensor) => this.#add(tensor, { kind: 'result' }, depends)),
      line: userLine(),
      isDetached: name === 'Identity' && tfjsState().kernelDepth > 0 && this.#customGradients === 0,
    };
    this.#body.push(operation);
  }

  #add(tensor: tf.Tensor, source: SeenValue['source'], depends = true): number {
    const id = this.#values.length;
    this.#values.push({ dtype: tensor.dtype as DType, shape: tensor.shape, source }); // the engine has no other types
    this.#ids.set(tensor.id, id);
    if (depends) this.#depending.add(tensor.dataId);
    return id;
  }

  /** Returns the id of a tensor; a tensor that no operation made is a constant. */
  #idOf(tensor: tf.Tensor): number {
    const id = this.#ids.get(tensor.id);
    if (id === undefined)
      return this.#add(
        tensor,
        { kind: 'constant', values: this.checking(() => [...tensor.dataSync()]) },
        false,
      );
    return id;
  }

  /** Returns the id of a tensor that a call returned; the kernels of a layer (`hides`) are not noted. */
  #outputOf(tensor: tf.Tensor, hides: boolean): number {
    return hides && !this.#ids.has(tensor.id) ? this.#add(tensor, { kind: 'result' }) : this.#idOf(tensor);
  }
}

/** Returns the user's line that runs now, unless the launcher adds it to an error: it does so for functions of job.train. */
function runningLine(): string {
  const line = userLine();
  return line.startsWith('job.train') ? '' : line;
}

/** Makes the error for a model that cannot be exported. */
export function refused(problem: string, line: string, remedy: string): ConfigError {
  return new ConfigError(`export: ${problem}${line === '' ? '' : ` (${line})`}; ${remedy}`);
}

function attributesOf(attrs: Readonly<Record<string, unknown>>): TracedOperation['attrs'] {
  return Object.fromEntries(
    Object.entries(attrs).flatMap(([key, value]) => (IGNORED.has(key) ? [] : [[key, attributeOf(value)]])),
  );
}

function attributeOf(value: unknown): Attribute {
  if (typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean') return value;
  if (Array.isArray(value) || ArrayBuffer.isView(value))
    return Array.from(value as Iterable<unknown>, attributeOf); // typed arrays and lists are iterable
  if (typeof value !== 'object' || value === null) return null;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, attributeOf(inner)]));
}
