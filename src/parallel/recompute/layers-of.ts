import { ModuleList } from '../../nn/containers';
import type { Module } from '../../nn/module';

/** The layers of a model: items of its ModuleLists, except lists within such items (a layer's experts). */
export function layersOf(model: Module): Module[] {
  if (model instanceof ModuleList) return [...model.children.values()];
  return [...model.children.values()].flatMap(layersOf);
}
