import { posix } from 'node:path';

/** What `import 'shardlab'` loads. */
const PACKAGE = {
  shardlab: 'src/index.ts',
  'shardlab/rank': 'src/rank.ts',
  'shardlab/tf': 'src/core/tf.ts',
  'shardlab/tslab': 'src/cell/tslab.ts',
};

/** Folders of data that sources name by a bare word. */
const DATA = new Set(['claims', 'notebooks', 'docs']);

/** Whether a file is part of the package; others are tests and scripts. */
const isLibrary = (path) => /^(src|kernel)\//.test(path);

/** Whether a file is the door of a flat. */
const isDoor = (path) => /^src\/\w+\/index\.ts$/.test(path);

/**
 * The declarations of all sources, and what each of them names.
 *
 * [Note: reach] Imports say which declaration a name means. A method of a class is reached if the class is, and if any code
 * that is reached calls a property of the method's name: types are not known here. A string that is a path of a source starts a
 * process or a thread there, so the source is loaded, and its exports are reached if they are named; those of
 * `await import(…)` too. A program that the library starts has objects of its own: only its own code, and the cells and functions
 * of the test, call their methods. In strings outside of src and kernel there may be cells: they name what follows a dot. So the reach is
 * rather too large than too small. It does not contain names that a program computes, and constants that nobody names but whose
 * values have effects when their file is loaded.
 */
export class Graph {
  #files;
  #paths;
  #folders;
  #links = new Map();

  /** `files` are those of `readDeclarations`; `paths` has all files of the repository. */
  constructor(files, paths) {
    this.#files = new Map(files.map((file) => [file.path, file]));
    this.#paths = new Set(paths);
    this.#folders = new Set(paths.flatMap(foldersOf));
    for (const file of files) {
      file.names = new Map();
      file.origins = new Map(Object.entries(file.imports));
      for (const [name, declaration] of Object.entries(file.declarations)) {
        file.names.set(name, Object.assign(declaration, { file, name }));
      }
      // A re-export can change, as a declaration can.
      for (const [name, origin] of Object.entries(file.exports)) {
        file.names.set(`export ${name}`, { file, name: `export ${name}`, origin });
      }
    }
  }

  get files() {
    return [...this.#files.values()];
  }

  file(path) {
    return this.#files.get(path);
  }

  /** Returns what a file reaches, each declaration with the one through which it was reached first. */
  reachOf(path) {
    return new Visit(this).all(this.#files.get(path));
  }

  /** Whether a file reaches one of these declarations. */
  reaches(path, declarations) {
    return declarations.size > 0 && new Visit(this, declarations).reaches(this.#files.get(path));
  }

  /** What a declaration names (`noLinks`). */
  linksOf(declaration) {
    const known = this.#links.get(declaration);
    if (known !== undefined) return known;
    const links = declaration.origin ? this.#originOf(declaration) : this.#find(declaration);
    this.#links.set(declaration, links);
    return links;
  }

  /** Files that are loaded with a file; a door loads a file when one of its names is read ([Note: doors] in src/core/index.ts). */
  loadedBy(file) {
    file.loaded ??= [
      ...new Set(
        [
          ...file.loads,
          ...file.stars,
          ...Object.values(file.imports).map(({ from }) => from),
          ...(isDoor(file.path) ? [] : Object.values(file.exports).map(({ from }) => from)),
        ]
          .filter((from) => from !== undefined)
          .map((from) => this.#imported(file, from)),
      ),
    ].flatMap((path) => this.#files.get(path) ?? []);
    return file.loaded;
  }

  /** All that a file exports (in test files also what they do not export), by name. */
  exportsOf(file, seen = new Set()) {
    if (file === undefined || seen.has(file)) return new Map();
    seen.add(file);
    const stars = file.stars.map((from) => this.exportsOf(this.#files.get(this.#imported(file, from)), seen));
    const own = [...file.names].filter(([name]) => name !== '' && !name.includes('.'));
    const named = own.map(([name, declaration]) => [name.replace(/^export /, ''), declaration]);
    return new Map([...stars.flatMap((each) => [...each]), ...named]);
  }

  /** Whether a class's base is a class of this repository. */
  isOwn({ file, base }) {
    if (base === undefined) return true;
    if (base === null) return false;
    if (file.names.has(base)) return true;
    const origin = file.origins.get(base);
    return origin !== undefined && origin.name !== '*' && this.#exported(file, origin).length > 0;
  }

  #find({ file, uses, paths, names, reads, modules, loads, texts }) {
    const links = { ...noLinks(), names: new Set(names), reads: new Set(reads) };
    links.loads.push(...loads.map((from) => this.#imported(file, from)));
    for (const name of uses) {
      links.declarations.push(...this.#meant(file, name));
      const origin = file.origins.get(name);
      if (origin) this.#addData(links, this.#imported(file, origin.from));
    }
    for (const path of paths) {
      const [name, property] = path.split('.');
      const origin = file.origins.get(name);
      if (origin) this.#addData(links, this.#imported(file, origin.from));
      const isNamespace = origin?.name === '*' && !file.names.has(name);
      links.declarations.push(
        ...(isNamespace ? this.#exported(file, { ...origin, name: property }) : this.#meant(file, name)),
      );
    }
    links.opens.push(...modules.map((from) => this.#imported(file, from)));
    for (const list of texts) this.#addText(links, file, list);
    return links;
  }

  #originOf({ file, origin }) {
    const links = noLinks();
    if (origin.from === undefined) links.declarations.push(...this.#meant(file, origin.name));
    else if (origin.name === '*') links.opens.push(this.#imported(file, origin.from));
    else links.declarations.push(...this.#exported(file, origin));
    return links;
  }

  /** The declarations that a name of a file means. */
  #meant(file, name) {
    const own = file.names.get(name);
    if (own) return [own];
    return file.origins.has(name) ? this.#exported(file, file.origins.get(name)) : [];
  }

  /** The declarations that an import means; of a namespace that is passed on, all. */
  #exported(file, { from, name }, seen = new Set()) {
    const target = this.#files.get(this.#imported(file, from));
    if (target === undefined || seen.has(target)) return [];
    seen.add(target);
    if (name === '*') return [...this.exportsOf(target).values()];
    const own = target.names.get(`export ${name}`) ?? target.names.get(name);
    if (own) return [own];
    return target.stars.flatMap((star) => this.#exported(target, { from: star, name }, seen));
  }

  #addText(links, file, list) {
    const whole = this.#named(file, list);
    const found =
      whole.length > 0 || list.length === 1 ? whole : list.flatMap((text) => this.#named(file, [text]));
    for (const path of found) {
      if (this.#files.has(path)) (isLibrary(file.path) ? links.programs : links.opens).push(path);
      else this.#addData(links, path);
    }
    if (isLibrary(file.path)) return;
    for (const text of list) {
      if (/^#?[\w$]+$/.test(text)) links.said.add(text);
      for (const [, from] of text.matchAll(/['"](shardlab(?:\/\w+)?)['"]/g)) links.cells.push(PACKAGE[from]);
      for (const [, name] of text.matchAll(/\.\s*(#?[\w$]+)/g)) links.said.add(name);
      for (const [, names] of text.matchAll(/\{([\w$,:\s]+)\}\s*(?:=|from)/g)) {
        for (const [name] of names.matchAll(/[\w$]+/g)) links.said.add(name);
      }
    }
  }

  #addData(links, path) {
    if (path === undefined || this.#files.has(path)) return;
    links.data.push(path);
    // The cells of notebooks name what they use.
    if (path === 'notebooks')
      links.opens.push(...[...this.#files.keys()].filter((each) => each.startsWith('notebooks/')));
  }

  /** The files and folders that texts of a file may name. */
  #named({ path }, texts) {
    const whole = texts.join('/');
    if (!/^[\w@./-]*\w[\w@./-]*$/.test(whole)) return [];
    const below = whole.replace(/^(\.\/)?build\//, '');
    const near = posix.join(posix.dirname(path), below);
    if (/^\.\.?(\/|$)/.test(whole)) return this.#existing([near]);
    const isWord = !/[./]/.test(below);
    if (isWord && isLibrary(path)) return DATA.has(below) ? [below] : [];
    const places = isLibrary(path) ? [below, near] : [below, near, `test/data/${below}`];
    return isWord ? places.filter((place) => this.#folders.has(place)) : this.#existing(places);
  }

  #existing(paths) {
    return paths.flatMap((path) => [this.#source(path) ?? [], this.#folders.has(path) ? path : []].flat());
  }

  /** The file that a file imports as `from`; undefined if it is a package. */
  #imported({ path }, from) {
    if (Object.hasOwn(PACKAGE, from)) return PACKAGE[from];
    if (from.startsWith('/')) return this.#source(from.slice(1));
    return from.startsWith('.') ? this.#source(posix.join(posix.dirname(path), from)) : undefined;
  }

  #source(path) {
    const stem = path.replace(/\.m?js$/, '');
    const found = [path, `${stem}.ts`, `${stem}.mjs`, `${stem}/index.ts`].find((name) =>
      this.#files.has(name),
    );
    return found ?? (this.#paths.has(path) ? path : undefined);
  }
}

/**
 * What a declaration names. `opens` are files whose exports it may read by name, `loads` files that it only runs, `programs` files
 * that the library runs in processes or threads, and `cells` files whose exports cells may read; `said` are the names in its texts, which may be cells.
 */
function noLinks() {
  const lists = { declarations: [], opens: [], loads: [], programs: [], cells: [], data: [] };
  return { ...lists, names: new Set(), reads: new Set(), said: new Set() };
}

/** All folders above a path. */
export function foldersOf(path) {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'));
}

/** One walk over the graph. */
class Visit {
  #graph;
  #wanted;
  #isFound = false;
  #reached = new Map();
  #from;
  #todo = [];
  /** Programs that the library starts; a program may start others. */
  #programs = new Set();
  /** The names in code of tests, which may run in a program. */
  #sent = { names: new Set(), reads: new Set(), said: new Set() };
  #loaded = new Set();
  #opened = { reads: new Set(), said: new Set() };
  /** The names of all links, and what is reached once a name is known. */
  #known = { names: new Set(), reads: new Set(), said: new Set() };
  #waiting = { names: new Map(), reads: new Map(), said: new Map() };

  /** The walk of `reaches` ends at one of the `wanted` declarations. */
  constructor(graph, wanted = new Set()) {
    this.#graph = graph;
    this.#wanted = wanted;
  }

  /** Returns all that a file reaches. */
  all(file) {
    this.reaches(file);
    return this.#reached;
  }

  /** Whether everything in a file, and in the programs that it starts, reaches a wanted declaration. */
  reaches(file) {
    this.#load(file);
    for (const declaration of file.names.values()) this.#reach(declaration);
    this.#finish();
    for (const path of this.#programs) if (!this.#isFound) this.#run(path);
    return this.#isFound;
  }

  #finish() {
    while (!this.#isFound && this.#todo.length > 0) this.#follow(this.#todo.pop());
  }

  /** Reaches a program of the library, to which the test's cells and functions are sent. */
  #run(path) {
    const program = new Visit(this.#graph, this.#wanted);
    for (const [kind, names] of Object.entries(this.#sent))
      for (const name of names) program.#name(name, kind);
    program.#programs = this.#programs;
    program.#open(this.#graph.file(path), 'reads');
    // The program may run the cells.
    for (const file of this.#opened.said) program.#open(file, 'said');
    program.#finish();
    for (const [declaration, from] of program.#reached) {
      if (!this.#reached.has(declaration)) this.#reached.set(declaration, from);
    }
    this.#isFound ||= program.#isFound;
  }

  #reach(declaration) {
    if (this.#reached.has(declaration)) return;
    this.#reached.set(declaration, this.#from);
    this.#isFound ||= this.#wanted.has(declaration);
    this.#todo.push(declaration);
    this.#load(declaration.file);
  }

  #follow(declaration) {
    this.#from = declaration;
    const { declarations, opens, loads, programs, cells, names, reads, said } =
      this.#graph.linksOf(declaration);
    for (const next of declarations) this.#reach(next);
    for (const path of opens) this.#open(this.#graph.file(path), 'reads');
    for (const path of cells) this.#open(this.#graph.file(path), 'said');
    for (const path of loads) this.#load(this.#graph.file(path));
    for (const path of programs) this.#programs.add(path);
    const isSent = !isLibrary(declaration.file.path);
    // A name in a text may be called, and what is called is read.
    for (const name of said) this.#hear(name, 'said', isSent);
    for (const kind of [said, names]) for (const name of kind) this.#hear(name, 'names', isSent);
    for (const kind of [said, names, reads]) for (const name of kind) this.#hear(name, 'reads', isSent);
    if (declaration.members) this.#openClass(declaration);
  }

  /** Runs the statements of a file and of those that it imports. */
  #load(file) {
    if (file === undefined || this.#loaded.has(file)) return;
    this.#loaded.add(file);
    this.#reach(file.names.get(''));
    for (const next of this.#graph.loadedBy(file)) this.#load(next);
  }

  /** Loads a file whose exports are reached if links of a kind have their names; of a file of tests, all are. */
  #open(file, kind) {
    if (file === undefined || this.#opened[kind].has(file)) return;
    this.#opened[kind].add(file);
    this.#load(file);
    for (const [name, declaration] of this.#graph.exportsOf(file)) {
      if (file.path.startsWith('test/')) this.#reach(declaration);
      else this.#await(name, kind, declaration);
    }
  }

  #openClass(declaration) {
    const { file, name, members } = declaration;
    const isOwn = this.#graph.isOwn(declaration);
    for (const member of members) {
      const method = file.names.get(`${name}.${member}`);
      // A class of another library calls any method.
      if (isOwn) this.#await(member, method.isRead ? 'reads' : 'names', method);
      else this.#reach(method);
    }
  }

  #await(name, kind, declaration) {
    const waiting = this.#waiting[kind];
    if (this.#known[kind].has(name)) this.#reach(declaration);
    else if (waiting.has(name)) waiting.get(name).push(declaration);
    else waiting.set(name, [declaration]);
  }

  #hear(name, kind, isSent) {
    if (isSent) this.#sent[kind].add(name);
    this.#name(name, kind);
  }

  #name(name, kind) {
    if (this.#known[kind].has(name)) return;
    this.#known[kind].add(name);
    for (const declaration of this.#waiting[kind].get(name) ?? []) this.#reach(declaration);
  }
}
