import { Embedding } from '../../nn/embedding';
import { MixtureOfExperts } from '../../nn/mixture-of-experts';
import type { Module } from '../../nn/module';
import type { Parameter } from '../../nn/parameter';

/** A parameter in which backward touches only some rows. */
export interface RowTable {
  readonly parameter: Parameter;
  /** Number of its rows; 1 for a parameter of an expert, which is touched as a whole or not at all. */
  readonly rows: number;
}

/**
 * The parameters whose gradients travel only in touched rows: tables of Embeddings, and all parameters of experts. A
 * table that is also the output head has a gradient in every row; if it is in the list, all its rows travel.
 */
export function rowTables(model: Module): RowTable[] {
  const tables = new Map<Parameter, RowTable>();
  for (const module of model.modules()) {
    if (module instanceof Embedding) {
      const { weight } = module;
      tables.set(weight, { parameter: weight, rows: weight.shape[0] ?? 1 });
    }
    if (!(module instanceof MixtureOfExperts)) continue;
    for (const expert of module.experts) {
      for (const parameter of expert.parameters()) tables.set(parameter, { parameter, rows: 1 });
    }
  }
  return [...tables.values()].filter(({ parameter }) => parameter.requiresGrad);
}
