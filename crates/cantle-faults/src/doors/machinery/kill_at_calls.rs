pub fn enter(_: &crate::visit::Visit) {}
