const { readFileSync } = require('node:fs');
const Module = require('node:module');

/** The packages that were loaded: a function that recognizes other installed copies of the package, and the exports that they get. */
const loaded = [];

/**
 * Returns the exports of a package that shardlab contains. A process has one copy of it: if the user's copy of the same version
 * was loaded before, its exports are returned; if the user's copy is required later, it gets the exports of this one. tfjs keeps
 * backends, kernels and gradients in its modules, so two copies would not know each other's.
 */
exports.oneCopy = (name, version, main, load) => {
  const end = `/node_modules/${name}/${main}`;
  const isCopy = (file) => file.endsWith(end) && versionOf(file.slice(0, -main.length)) === version;
  const earlier = Object.values(Module._cache).find((module) => module?.loaded && isCopy(module.filename));
  if (loaded.length === 0) watchRequires();
  const copy = { isCopy, exports: earlier?.exports ?? load() };
  loaded.push(copy);
  return copy.exports;
};

function watchRequires() {
  const load = Module._load;
  Module._load = (request, parent, isMain) => {
    if (request.includes('@tensorflow/')) {
      const file = Module._resolveFilename(request, parent, isMain);
      const copy = loaded.find(({ isCopy }) => isCopy(file));
      if (copy !== undefined) return become(file, copy.exports);
    }
    return load.call(Module, request, parent, isMain);
  };
}

/** Makes a module have these exports; an import() has made the module already, and reads them there. */
function become(file, exports) {
  Module._cache[file] ??= new Module(file);
  return Object.assign(Module._cache[file], { filename: file, exports, loaded: true }).exports;
}

function versionOf(folder) {
  try {
    return JSON.parse(readFileSync(`${folder}package.json`, 'utf8')).version;
  } catch {
    return undefined;
  }
}
