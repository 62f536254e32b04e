import { compareCompiled } from './compile-cases';

compareCompiled('aot_eager');
