import { NotebookCompiler } from './notebook-compiler';
import { serve } from './serve';

// The compiler process when there is no snapshot: the front passes installation and notebook's folder as arguments.
const [, , installation = '', baseDir = ''] = process.argv;
const compiler = new NotebookCompiler(installation);
compiler.open(baseDir);
serve(compiler);
compiler.warmUp();
