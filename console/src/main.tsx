import "./styles/tokens.css";
import "./styles/page.css";
import "./styles/parts.css";
import "./styles/screens.css";
import { render } from "preact";
import { App } from "./app";
import { listen } from "./router";
import { applyTheme } from "./theme";

applyTheme();
listen();
const page = document.getElementById("page");
if (page) render(<App />, page);
