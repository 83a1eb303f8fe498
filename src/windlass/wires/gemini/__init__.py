"""The wire of Gemini's generateContent, used by the Gemini API and Vertex AI."""
