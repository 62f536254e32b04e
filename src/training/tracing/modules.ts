import type { DType } from '../../core';
import { type Buffer, Module, ModuleDict, ModuleList, type Parameter, Sequential } from '../../nn';
import type { TracedModule, TracedTensor } from './program';

/** Whether PyTorch has the module as a layer, and the module's class has not changed the layer's forward. */
export function isLayer(module: Module): boolean {
  if (module.torchLayer === null) return false;
  // The class that says which layer it is must be the one with the forward, or inherit the forward.
  for (
    let type = Object.getPrototypeOf(module) as object | null;
    type !== null;
    type = Object.getPrototypeOf(type) as object | null
  ) {
    if (Object.hasOwn(type, 'torchLayer')) return true;
    if (Object.hasOwn(type, 'forward')) return false;
  }
  return false;
}

/** Describes a model's modules, parents first; a module that is used twice appears once. */
export function describeModules(model: Module): TracedModule[] {
  return model.modules().map((module) => {
    const kind = kindOf(module);
    return {
      path: module.path,
      className: module.constructor.name,
      kind,
      layer: kind === 'layer' ? module.torchLayer : null,
      inputNames: inputNamesOf(module),
      children: [...module.children].map(([name, child]) => ({ name, path: child.path })),
      tensors: [...module.ownTensors].map(([name, tensor]) => describeTensor(name, tensor)),
    };
  });
}

function kindOf(module: Module): TracedModule['kind'] {
  if (isLayer(module)) return 'layer';
  if (module.constructor === ModuleList) return 'list'; // a class of the user's may have a forward
  if (module.constructor === ModuleDict) return 'dict';
  const isSequence = module instanceof Sequential && module.constructor === Sequential;
  return isSequence && module.steps.every((step) => step instanceof Module) ? 'sequence' : 'module';
}

function describeTensor(name: string, tensor: Parameter): TracedTensor {
  const { shape, requiresGrad } = tensor;
  const isBuffer = (part: Parameter): part is Buffer => 'isPersistent' in part;
  const kind = isBuffer(tensor) ? (tensor.isPersistent ? 'buffer' : 'constant buffer') : 'parameter';
  return { name, fullName: tensor.name, shape, dtype: tensor.dtype as DType, kind, requiresGrad }; // the engine has no other types
}

/** Returns the names of forward's inputs, as far as its source has plain names. */
function inputNamesOf(module: Module): readonly string[] {
  const [, inputs = ''] = /^(?:async )?forward\s*\(([^)]*)\)/.exec(String(module.forward)) ?? [];
  return inputs
    .split(',')
    .map((input) => input.trim())
    .filter((input) => /^[A-Za-z]\w*$/.test(input));
}
