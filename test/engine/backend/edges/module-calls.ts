import * as tf from '../../../../src/core/tf';
import * as nn from '../../../../src/nn/names/nn-names';

/** The arguments of a row of modules.py. */
export interface ModuleArguments {
  /** The arguments of the constructor; arrays of weights are tensors. */
  readonly new: readonly unknown[];
  /** The names, in the call's options, of the last inputs of the call. */
  readonly options?: readonly string[];
  /** The other options of the call. */
  readonly with?: Readonly<Record<string, unknown>>;
  readonly eval?: boolean;
}

type Layer = new (...given: readonly unknown[]) => nn.Module;

/**
 * Runs the layer `nn[name]` of a row: the inputs are those of the call, then the parameters. Returns the outputs, and the running
 * statistics after the call.
 */
export function callModule(name: string, inputs: readonly tf.Tensor[], args: ModuleArguments): tf.Tensor[] {
  const module = made(name, args.new);
  if (args.eval === true) module.eval();
  const parameters = module.parameters();
  const given = inputs.slice(0, inputs.length - parameters.length);
  // The tape of tfjs records the row's tensors in place of the module's own.
  for (const [k, parameter] of parameters.entries()) parameter.lent = inputs[given.length + k] as tf.Tensor; // a row has an input per parameter
  try {
    const outputs = [module.apply(...callArguments(name, given, args))]
      .flat(3)
      .map((each) => (inputs.includes(each) ? tf.clone(each) : each)); // a gradient needs an operation
    const statistics = module.buffers().filter(({ dtype }) => dtype === 'float32');
    const results = [...outputs, ...statistics.map(({ tensor }) => tf.clone(tensor))];
    return results.filter((each) => each instanceof tf.Tensor);
  } finally {
    for (const parameter of parameters) parameter.lent = null;
    module.dispose();
  }
}

/** Returns the layer that `new nn[name](...given)` makes; an encoder's arguments are those of its layers, and then their number. */
function made(name: string, given: readonly unknown[]): nn.Module {
  if (name === 'Sequential')
    return new nn.Sequential(...given.map((each) => made(...(each as [string, unknown[]]))));
  if (name === 'TransformerEncoder') {
    const [width, heads, count, options] = given as [number, number, number, object];
    return new nn.TransformerEncoder(() => new nn.TransformerEncoderLayer(width, heads, options), count);
  }
  const layer = Reflect.get(nn, name) as Layer; // the rows have names of layers
  return new layer(...given.map(withTensors));
}

function withTensors(argument: unknown): unknown {
  if (typeof argument !== 'object' || argument === null || Array.isArray(argument)) return argument;
  const options = Object.entries(argument).map(([name, value]): [string, unknown] => [
    name,
    name === 'weight' || name === 'posWeight' ? tf.tensor(value as number[]) : value,
  ]);
  return Object.fromEntries(options);
}

function callArguments(name: string, given: readonly tf.Tensor[], args: ModuleArguments): unknown[] {
  const { options = [], with: others = {} } = args;
  const plain = given.slice(0, given.length - options.length);
  const named = Object.fromEntries(options.map((option, k) => [option, given[plain.length + k]]));
  const hasOptions = options.length > 0 || Object.keys(others).length > 0;
  const [x, ...states] = plain;
  const taken = name === 'LSTM' && states.length > 0 ? [x, states] : plain;
  return hasOptions ? [...taken, { ...named, ...others }] : taken;
}
