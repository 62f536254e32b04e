import { ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import { Module, ModuleList, ModuleListPart, type Parameter } from '../../nn';
import type { ModelPiece } from './pieces';

/** A module to which other modules can be added under their names. */
interface Container {
  put(name: string, child: Module): void;
}

/**
 * A container of the model that has only the modules of one stage. Names do not change, so initial values do not change
 * either.
 */
class Shell extends Module {
  put(name: string, child: Module): void {
    this.addChild(name, child);
  }

  forward(..._inputs: tf.Tensor[]): tf.Tensor {
    throw new ShardlabError('INTERNAL', `"${this.path}" is a container of a stage and has no forward`);
  }
}

/**
 * The part of a model that runs on one stage of a pipeline. Its parameters have the same names, seeds and initial values as in
 * the whole model. Shapes: the first stage takes the model's input, and each other stage takes the output of the previous
 * stage.
 */
export class StageModule extends Shell {
  readonly #pieces: readonly ModelPiece[];
  readonly #whole: Module;

  /** Moves the pieces' modules out of the model, whose forward must not be called afterwards. */
  constructor(model: Module, pieces: readonly ModelPiece[]) {
    super();
    this.#pieces = pieces;
    this.#whole = model;
    this.manualSeed(model.seed);
    keepTiedValues(model);
    const containers = new Map<string, Module>(model.modules().map((module) => [module.path, module]));
    const shells = new Map<string, Container>([['', this]]);
    for (const module of new Set(pieces.flatMap((piece) => piece.modules))) {
      const names = module.path.split('.');
      const own = names.pop() ?? '';
      shellAt(names, shells, containers).put(own, module);
    }
    this.#takeOver(model);
  }

  override get whole(): Module {
    return this.#whole;
  }

  override forward(x: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    let output = x;
    for (const piece of this.#pieces) {
      const input = output;
      output = piece.run(input, targets);
      // As in `applyInTurn`, inputs are disposed, because forward has saved the tensors that backward needs.
      if (output !== input && input !== x) input.dispose();
    }
    return output;
  }

  /** Makes this module the reader of the parameters that the model itself read, such as the weight of a tied head. */
  #takeOver(model: Module): void {
    const inside = new Set<object>(this.modules());
    const readBy = (parameter: Parameter): object[] =>
      [...parameter.users].filter((user) => !inside.has(user));
    for (const parameter of this.parameters()) {
      for (const user of parameter.users) {
        if (!readBy(parameter).includes(user)) continue;
        parameter.noLongerUsedBy(user);
        if (user === model) this.sharesParameter(parameter);
      }
    }
  }
}

/**
 * Makes the initial values of tied parameters independent of names: initial values depend on a parameter's first name, but a
 * stage may have only the module with another name, such as a head without the embedding.
 */
function keepTiedValues(model: Module): void {
  const seen = new Set<Parameter>();
  for (const parameter of model.modules().flatMap((module) => [...module.ownParameters.values()])) {
    const { source } = parameter;
    if (seen.has(parameter) && source !== null) parameter.defer(source);
    seen.add(parameter);
  }
}

/** Returns the container with this path. If the container is missing, makes it and the missing containers around it. */
function shellAt(
  names: readonly string[],
  shells: Map<string, Container>,
  containers: ReadonlyMap<string, Module>,
): Container {
  const path = names.join('.');
  const known = shells.get(path);
  if (known !== undefined) return known;
  const original = containers.get(path);
  const made = original instanceof ModuleList ? new ModuleListPart() : new Shell();
  if (original !== undefined) made.manualSeed(original.seed);
  shells.set(path, made);
  shellAt(names.slice(0, -1), shells, containers).put(names.at(-1) ?? '', made);
  return made;
}
