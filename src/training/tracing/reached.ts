import type { TracedCall, TracedModule, TracedNode, TracedOperation, TracedProgram } from './program';

/** Operations on floats through which no gradient flows. */
const WITHOUT_GRADIENT = new Set(['Floor', 'Ceil', 'Round', 'Sign', 'ZerosLike', 'OnesLike', 'Step']);

/** Returns the names of the parameters and buffers to which the loss has a gradient, as PyTorch's autograd finds them. */
export function reachedTensors({
  modules,
  values,
  body,
  loss,
}: Pick<TracedProgram, 'modules' | 'values' | 'body' | 'loss'>): ReadonlySet<string> {
  const needed = new Set([loss]);
  const layers = new Set<string>();
  for (const node of [...body.flatMap(flat)].reverse()) {
    if (!node.outputs.some((id) => needed.has(id) && values[id]?.dtype === 'float32')) continue;
    if (node.outputs.every((id) => inputsOf(node).includes(id))) continue; // the module returns what it got
    if (node.kind === 'call') layers.add(node.module);
    else if (node.isDetached || WITHOUT_GRADIENT.has(node.name)) continue;
    for (const id of inputsOf(node)) needed.add(id);
  }
  const read = values.flatMap(({ source, dtype }, id) =>
    source.kind === 'parameter' && dtype === 'float32' && needed.has(id) ? [source.name] : [],
  );
  return new Set([...read, ...modules.filter(({ path }) => isWithin(path, layers)).flatMap(namesIn)]);
}

function inputsOf(node: TracedNode): readonly number[] {
  return node.kind === 'call' ? node.inputs : Object.values(node.inputs);
}

/** Returns operations and calls of layers, which have no body, in the order in which they ran. */
function flat(node: TracedNode): readonly (TracedOperation | TracedCall)[] {
  return node.kind === 'call' && node.body.length > 0 ? node.body.flatMap(flat) : [node];
}

function isWithin(path: string, layers: ReadonlySet<string>): boolean {
  return [...layers].some((layer) => path === layer || path.startsWith(`${layer}.`));
}

function namesIn({ tensors }: TracedModule): readonly string[] {
  return tensors.map(({ fullName }) => fullName);
}
